"""The functions of `workers.runtimes.library_errors`. Sources that results are known by (the reference of Metal) name
it here: with another line in them, all that they have checked would be checked again."""

from workers.runtimes.library_errors import first_words

__all__ = ["first_words"]
