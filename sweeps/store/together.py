"""Several calls of MLflow's client as one transaction, where MLflow is a database and not a server.

Each call opens several sessions of its own, and commits each: most of what a short call costs is that.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from sweeps.errors import StoreError

if TYPE_CHECKING:
    from mlflow import MlflowClient

_MAKER = "ManagedSessionMaker"
"""Where a store of MLflow that is a database has what opens its sessions (3.17)."""


@contextmanager
def together(client: "MlflowClient") -> Iterator[None]:
    """What the block writes is there when it ends, or nothing of it. With a server, each call is for itself.

    Blocks other writers of an sqlite database from the first write on. Not to be nested.
    """
    store = getattr(getattr(client, "_tracking_client", None), "store", None)
    maker = getattr(store, _MAKER, None)
    if maker is None:
        yield
        return
    if not isinstance(maker, _Sessions):
        maker = _Sessions(maker)
        setattr(store, _MAKER, maker)
    # MLflow would translate the errors of the block.
    failure: Exception | None = None
    with maker.open(read_only=False) as session:
        token = _shared.set(_Part(session))
        try:
            yield
        except Exception as error:  # noqa: BLE001  # raised below
            session.rollback()
            failure = error
        finally:
            _shared.reset(token)
    if failure is not None:
        raise failure


class _Part:
    """A session of sqlalchemy, as one of the calls has it: what it commits is committed with the others."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def commit(self) -> None:
        self._session.flush()

    def rollback(self) -> None:
        """MLflow does so to go on without what was there already: it would go on without what others wrote."""
        raise StoreError("MLflow has some of this run already", "run the same command again: it looks up what is there")


_shared: ContextVar[_Part | None] = ContextVar("_shared", default=None)


class _Sessions:
    """Opens the sessions of a store: within a block of `together`, there is one."""

    def __init__(self, maker: Callable[..., AbstractContextManager[Any]]) -> None:
        self.open = maker

    @contextmanager
    def __call__(self, **options: bool) -> Iterator[Any]:
        part = _shared.get()
        if part is not None:
            yield part
            return
        with self.open(**options) as session:
            yield session
