"""Reads what Android's linker asks of a program or library: its machine, pages, libraries and symbols.

64-bit and 32-bit ELF files of little-endian machines, as in elf.h. Own reading, since a few fields are needed.
"""

import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

MACHINES = {3: "x86", 40: "armeabi-v7a", 62: "x86_64", 183: "arm64-v8a", 243: "riscv64"}
"""ABIs by the machine in the head of an ELF file."""
PAGE_BYTES = 16_384
"""The pages of phones with Android 15 and later; programs of 64-bit ABIs must fit both these pages and those of 4
KiB."""
_LOAD, _DYNAMIC = 1, 2
_END, _NEEDED, _STRINGS, _TEXTREL, _RUNPATH, _FLAGS = 0, 1, 5, 22, 29, 30
"""Tags of the dynamic section: DT_NULL, DT_NEEDED, DT_STRTAB, DT_TEXTREL, DT_RUNPATH, DT_FLAGS."""
_FLAG_TEXTREL = 0x4
_DYNSYM = 11
_GLOBAL = 1
_MAX_NAME = 65_536
"""The longest name, beyond any of a C++ symbol: a table whose names never end would take hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """A program or a shared library."""

    machine: str
    """The ABI; empty for machines that Android does not have."""
    is_64_bit: bool
    page_bytes: int
    """The largest pages that its segments fit."""
    needed: tuple[str, ...]
    looks_beside: bool
    """Tells whether the program looks for libraries in its own folder."""
    text_relocations: bool
    undefined: frozenset[str]
    """Symbols that other libraries must have, without the weak ones."""
    defined: frozenset[str]


def read_elf(path: Path) -> Elf:
    """The parts of a file. Raises `ValueError` for a file that is no ELF file, or is cut off; `OSError`."""
    content = path.read_bytes()
    if content[:4] != b"\x7fELF" or content[5:6] != b"\x01":
        raise ValueError("it is no program of a little-endian machine")
    try:
        return _read(content, is_64=content[4] == 2)
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise ValueError(f"it is cut off or damaged: {error}") from error


def problems(elf: Elf, abi: str, libraries: Collection[str], symbols: Collection[str] | None = None) -> Iterable[str]:
    """The reasons that keep a program from running on a phone of that ABI, but for its pages. `libraries`: those that
    are there. `symbols`: what they have; `None` if that is not known."""
    if elf.machine != abi:
        yield f"it is for {elf.machine or 'another machine'}, not for {abi}"
    if unknown := [name for name in elf.needed if name not in libraries]:
        yield f"it needs {', '.join(unknown)}, which no phone has"
    if elf.text_relocations:
        yield "it has text relocations, which Android refuses: compile everything with -fPIC"
    if symbols is not None and (missing := sorted(elf.undefined - set(symbols))):
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        yield f"symbols that no library of this Android has: {', '.join(missing[:5])}{more}"


def too_small_pages(elf: Elf) -> str | None:
    """The reason why phones with the larger pages do not load a file; `None` if they do."""
    if not elf.is_64_bit or elf.page_bytes >= PAGE_BYTES:
        return None
    return (
        f"its segments are aligned to {elf.page_bytes // 1024} KiB: phones with pages of 16 KiB (some with Android 15 "
        "and later) do not load it"
    )


def _read(content: bytes, *, is_64: bool) -> Elf:
    (machine,) = struct.unpack_from("<H", content, 18)
    head = struct.unpack_from("<QQIHHHHHH" if is_64 else "<IIIHHHHHH", content, 32 if is_64 else 28)
    segments_at, sections_at, _, _, segment_bytes, segments, section_bytes, sections, _ = head
    pages, needed, beside, textrel, strings_of = [], [], False, False, 0
    loads: list[tuple[int, int, int]] = []
    dynamic: list[tuple[int, int]] = []
    for number in range(segments):
        kind, offset, address, in_file, align = _segment(content, segments_at + number * segment_bytes, is_64=is_64)
        if kind == _LOAD:
            loads.append((address, offset, in_file))
            # Address and offset must agree within a page.
            fits = align
            while fits > 1 and address % fits != offset % fits:
                fits //= 2
            pages.append(fits)
        if kind == _DYNAMIC:
            if dynamic:
                raise ValueError("it has more than one dynamic section")
            entry = "<qQ" if is_64 else "<iI"
            whole = in_file - in_file % struct.calcsize(entry)
            dynamic = list(struct.iter_unpack(entry, content[offset : offset + whole]))
    for tag, value in dynamic:
        if tag == _STRINGS:
            strings_of = next((offset + value - at for at, offset, size in loads if at <= value < at + size), 0)
    for tag, value in dynamic:
        if tag == _END:
            break
        if tag == _NEEDED:
            needed.append(_string(content, strings_of + value))
        if tag == _RUNPATH:
            beside = "$ORIGIN" in _string(content, strings_of + value).split(":")
        textrel |= tag == _TEXTREL or (tag == _FLAGS and bool(value & _FLAG_TEXTREL))
    undefined, defined = _symbols(content, sections_at, section_bytes, sections, is_64=is_64)
    return Elf(
        machine=MACHINES.get(machine, ""),
        is_64_bit=is_64,
        page_bytes=min(pages, default=0),
        needed=tuple(needed),
        looks_beside=beside,
        text_relocations=textrel,
        undefined=undefined,
        defined=defined,
    )


def _segment(content: bytes, at: int, *, is_64: bool) -> tuple[int, int, int, int, int]:
    """A segment's kind, offset, address, bytes in the file and alignment."""
    if is_64:
        kind, _, offset, address, _, in_file, _, align = struct.unpack_from("<IIQQQQQQ", content, at)
    else:
        kind, offset, address, _, in_file, _, _, align = struct.unpack_from("<IIIIIIII", content, at)
    return kind, offset, address, in_file, align


def _symbols(
    content: bytes, sections_at: int, size: int, count: int, *, is_64: bool
) -> tuple[frozenset[str], frozenset[str]]:
    undefined, defined, has_table = set(), set(), False
    layout = "<IIQQQQIIQQ" if is_64 else "<IIIIIIIIII"
    sections = [struct.unpack_from(layout, content, sections_at + number * size) for number in range(count)]
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != _DYNSYM:
            continue
        # Several tables, or entries that overlap, would take for ever.
        if has_table or entry != struct.calcsize("<IBBHQQ" if is_64 else "<IIIBBH"):
            raise ValueError("its table of symbols is not as it should be")
        has_table = True
        names_at = sections[link][4]
        for at in range(offset, offset + length, entry):
            if is_64:
                name, info, _, section, _, _ = struct.unpack_from("<IBBHQQ", content, at)
            else:
                name, _, _, info, _, section = struct.unpack_from("<IIIBBH", content, at)
            if not name:
                continue
            text = _string(content, names_at + name)
            if section:
                defined.add(text)
            elif info >> 4 == _GLOBAL:
                undefined.add(text)
    return frozenset(undefined), frozenset(defined)


def _string(content: bytes, at: int) -> str:
    return content[at : content.index(b"\0", at, at + _MAX_NAME)].decode("utf-8", "replace")
