"""The progress bar of a sweep."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(progress: bool | None, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar over windows that says "compiling" until its first tick."""
    if not progress:
        yield lambda count: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError('progress=True needs tqdm: pip install "jonline[experiments]"') from error
    with tqdm(total=total, desc="compiling", unit="window", leave=False) as shown:

        def tick(count: int) -> None:
            shown.set_description("playing", refresh=count == 0)
            shown.update(count)

        try:
            yield tick
        finally:  # left above the bars of other threads, in whose lines tqdm would leave it
            last = f"\r{shown}"
            shown.close()
            tqdm.write(last, file=shown.fp)
