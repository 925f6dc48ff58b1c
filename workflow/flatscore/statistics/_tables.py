"""The tables of a study as a mapping that can be written and read back."""

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from flatscore.errors import InputError
from flatscore.files import write_text
from flatscore.statistics._columns import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

# Identifiers that would otherwise be read back as numbers or as missing.
_TEXT = ("model", "domain", "precision", "baseline", "repair", "name", "reason", "metric")


class Tables(Mapping[str, "pd.DataFrame"]):
    """Every table of :data:`COLUMNS` by name, in that order."""

    def __init__(self, frames: Mapping[str, "pd.DataFrame"]) -> None:
        self._frames = {name: frames[name][list(COLUMNS[name])] for name in COLUMNS}

    def __getitem__(self, name: str) -> "pd.DataFrame":
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def write(self, folder: str | Path) -> None:
        """Write each table as `folder`/NAME.tsv: tabs, UTF-8, missing values empty."""
        for name, frame in self.items():
            text = frame.to_csv(sep="\t", index=False, float_format="%.10g", lineterminator="\n")
            write_text(Path(folder) / f"{name}.tsv", text)


def read_tables(folder: str | Path) -> Tables:
    """Read back the tables that :meth:`Tables.write` left in `folder`.

    Raises
    ------
    InputError
        When a table is missing from the folder.
    """
    import pandas as pd

    frames = {}
    for name, columns in COLUMNS.items():
        path = Path(folder) / f"{name}.tsv"
        if not path.is_file():
            raise InputError(path, "is missing.", "Run the statistics of this study again.")
        text: dict[Hashable, str] = {column: "string" for column in columns if column in _TEXT}
        frames[name] = pd.read_csv(
            path, sep="\t", dtype=text, keep_default_na=False, na_values=[""]
        )
    return Tables(frames)
