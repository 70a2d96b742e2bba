"""Kinds of cores, from trees of /sys/devices/system/cpu as phones have them."""

from pathlib import Path

from workers.cores import clusters


def tree(root: Path, capacity: dict[int, int] | None = None, khz: dict[int, int] | None = None) -> Path:
    """The files of the CPUs that `capacity` or `khz` name, with what stands beside them on a phone."""
    capacity, khz = capacity or {}, khz or {}
    for name in ("cpufreq", "cpuidle", "hotplug", "vulnerabilities"):
        (root / name).mkdir(parents=True)
    for cpu in {**capacity, **khz}:
        (root / f"cpu{cpu}" / "topology").mkdir(parents=True)
        if cpu:
            (root / f"cpu{cpu}" / "online").write_text("1\n")
    for cpu, value in capacity.items():
        (root / f"cpu{cpu}" / "cpu_capacity").write_text(f"{value}\n")
    for cpu, value in khz.items():
        (root / f"cpu{cpu}" / "cpufreq").mkdir()
        (root / f"cpu{cpu}" / "cpufreq" / "cpuinfo_max_freq").write_text(f"{value}\n")
    return root


def off(root: Path, *cpus: int) -> None:
    """A core that is switched off keeps its folder and capacity and loses its clock."""
    for cpu in cpus:
        (root / f"cpu{cpu}" / "online").write_text("0\n")
        clock = root / f"cpu{cpu}" / "cpufreq" / "cpuinfo_max_freq"
        clock.unlink(missing_ok=True)


def test_four_little_and_four_big_cores(tmp_path: Path) -> None:
    # Snapdragon 835: 4 x 1.9 GHz and 4 x 2.45 GHz, a kernel without capacities.
    root = tree(tmp_path, khz={**dict.fromkeys(range(4), 1900800), **dict.fromkeys(range(4, 8), 2457600)})
    assert clusters(root) == ((0, 1, 2, 3), (4, 5, 6, 7))


def test_a_prime_core_is_a_kind_of_its_own(tmp_path: Path) -> None:
    # Snapdragon 888: 4 + 3 + 1.
    capacity = {**dict.fromkeys(range(4), 250), **dict.fromkeys(range(4, 7), 783), 7: 1024}
    khz = {**dict.fromkeys(range(4), 1804800), **dict.fromkeys(range(4, 7), 2419200), 7: 2841600}
    assert clusters(tree(tmp_path, capacity, khz)) == ((0, 1, 2, 3), (4, 5, 6), (7,))


def test_capacity_goes_before_the_clock(tmp_path: Path) -> None:
    # Little cores with the higher clock, as on Exynos 7885 (6 x A53, 2 x A73) turned around.
    root = tree(tmp_path, {0: 1024, 1: 300, 2: 300}, {0: 1600000, 1: 1800000, 2: 1800000})
    assert clusters(root) == ((1, 2), (0,))


def test_big_cores_may_be_numbered_first_and_beyond_nine(tmp_path: Path) -> None:
    root = tree(tmp_path, {0: 1024, 1: 1024, **dict.fromkeys(range(2, 12), 400)})
    assert clusters(root) == (tuple(range(2, 12)), (0, 1))


def test_cores_that_are_switched_off_are_left_out(tmp_path: Path) -> None:
    root = tree(tmp_path, khz={**dict.fromkeys(range(4), 1555200), **dict.fromkeys(range(4, 8), 1958400)})
    off(root, 2, 6, 7)
    assert clusters(root) == ((0, 1, 3), (4, 5))


def test_without_its_big_cores_a_phone_has_one_kind(tmp_path: Path) -> None:
    root = tree(tmp_path, {0: 400, 1: 400, 2: 1024, 3: 1024})
    off(root, 2, 3)
    assert clusters(root) == ((0, 1),)


def test_cores_that_are_all_alike_are_one_kind(tmp_path: Path) -> None:
    assert clusters(tree(tmp_path, {0: 1024, 1: 1024}, {0: 2000000, 1: 2000000})) == ((0, 1),)


def test_what_only_some_cores_tell_is_not_believed(tmp_path: Path) -> None:
    root = tree(tmp_path, capacity={0: 400, 1: 1024}, khz={0: 1800000, 1: 1800000, 2: 2400000})
    assert clusters(root) == ((0, 1), (2,))
    (root / "cpu2" / "cpufreq" / "cpuinfo_max_freq").write_text("<unknown>\n")
    assert clusters(root) == ((0, 1, 2),)


def test_a_system_without_the_folder_has_no_kinds(tmp_path: Path) -> None:
    assert clusters(tmp_path / "none") == ()
