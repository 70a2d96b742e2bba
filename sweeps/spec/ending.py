"""A sweep file may ask for actions when its sweep has ended."""

from urllib.parse import urlsplit

from pydantic import Field, field_validator

from sweeps.spec.fields import Part


class OnEndSpec(Part):
    """Whom to tell, with a small JSON document: how it ended, and the winners."""

    command: tuple[str, ...] = Field(
        default=(),
        description="A program and its arguments, without a shell; the document is its standard input. At most 60 s.",
    )
    webhook: str | None = Field(
        default=None, description="An http or https address that the document is posted to. At most 10 s."
    )

    @field_validator("webhook")
    @classmethod
    def _is_an_address(cls, webhook: str | None) -> str | None:
        if webhook is not None:
            parts = urlsplit(webhook)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"{webhook!r} is not an address that begins with http:// or https://")
        return webhook

    def __bool__(self) -> bool:
        return bool(self.command or self.webhook)
