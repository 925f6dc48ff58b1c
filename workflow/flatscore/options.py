"""The options of a study, printed from their one description.

``python -m flatscore.options schema`` gives ``workflow/schemas/config.schema.json``, and ``table``
the table in ``config/README.md``; a test holds them together.
"""

import json
import sys
from collections.abc import Iterator

from pydantic import BaseModel

from flatscore.config import Model, Study, is_level


def option_rows(level: type[BaseModel] = Study, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield (key, default, meaning) of every option, depth first."""
    for name, field in level.model_fields.items():
        key = prefix + (field.alias or name)
        if is_level(field.annotation):
            yield from option_rows(field.annotation, f"{key}.")
        elif name == "models":
            yield key, "required", field.description or ""
            yield from option_rows(Model, f"{key}.NAME.")
        else:
            default = "required" if field.is_required() else f"`{field.default!r}`"
            yield key, default.replace("'", '"'), field.description or ""


def option_table() -> str:
    """The options as a Markdown table."""
    rows = [f"| `{key}` | {default} | {meaning} |" for key, default, meaning in option_rows()]
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows]) + "\n"


def schema_text() -> str:
    """The JSON schema of a study as text."""
    return json.dumps(Study.model_json_schema(by_alias=True), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write({"schema": schema_text, "table": option_table}[sys.argv[1]]())
