"""Write the JSON schemas that editors and other programs use, as the code has them now.

python scripts/schemas.py
"""

from __future__ import annotations

import json
from pathlib import Path

from porttool.schemas import port_schema, report_schema

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schema"


def texts() -> dict[str, str]:
    schemas = {"port.schema.json": port_schema(), "report.schema.json": report_schema()}
    return {name: json.dumps(schema, indent=2) + "\n" for name, schema in schemas.items()}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
