#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Bring the translations of the dashboard up to date: its .po files, and the .mo made of them.

Usage: tools/translations.py. Texts that are new stay empty in the .po files, for a translator.
"""

import datetime
import io
import pathlib
from collections.abc import Iterator

from babel.messages import extract, mofile, pofile
from babel.messages.catalog import Catalog

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / 'climate_dashboard'
LANGUAGES = ('de',)
_CONTEXT = ((1, 'c'), 2)
_NO_DATE = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
#: Lines of the head of a file that say nothing.
_LEFT_OUT = tuple(
    f'"{name}: '.encode()
    for name in (
        'Project-Id-Version',
        'Report-Msgid-Bugs-To',
        'POT-Creation-Date',
        'PO-Revision-Date',
        'Last-Translator',
        'Language-Team',
        'Generated-By',
    )
)
_KEYWORDS = {
    '_': None,
    'gettext': None,
    'gettext_noop': None,
    'gettext_lazy': None,
    'ngettext': (1, 2),
    'ngettext_lazy': (1, 2),
    'pgettext': _CONTEXT,
    'pgettext_lazy': _CONTEXT,
}


def sources() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the text, as Python, of all that has words for users."""
    from django.utils.translation import template

    for path in sorted(PACKAGE.rglob('*.py')):
        yield str(path.relative_to(ROOT)), path.read_bytes()
    for path in sorted(PACKAGE.rglob('*.html')):
        # Python rejects the indentation of templates.
        lines = map(str.lstrip, template.templatize(path.read_text()).splitlines())
        yield str(path.relative_to(ROOT)), '\n'.join(lines).encode()


def extracted(language: str) -> Catalog:
    """Return the texts of the package, none of them translated."""
    catalog = Catalog(locale=language, project='climate-dashboard', charset='utf-8')
    for name, text in sources():
        found = extract.extract('python', io.BytesIO(text), _KEYWORDS)
        for _line, message, _comments, context in found:
            catalog.add(message, locations=[(name, 1)], context=context)
    return catalog


def path_of(language: str) -> pathlib.Path:
    """Return the .po file of a language."""
    return PACKAGE / 'locale' / language / 'LC_MESSAGES' / 'django.po'


def read(language: str) -> Catalog:
    """Return the translations of a language."""
    with path_of(language).open('rb') as file:
        found = pofile.read_po(file, locale=language)
    # What is compiled is the same whenever that is done.
    found.creation_date = found.revision_date = _NO_DATE
    return found


def written(catalog: Catalog) -> bytes:
    """Return the translations as translators read them, without who wrote them when."""
    made = io.BytesIO()
    pofile.write_po(made, catalog, width=99, no_location=True)
    kept = [
        line
        for line in made.getvalue().splitlines(keepends=True)
        if not line.startswith(_LEFT_OUT)
    ]
    return b''.join(kept)


def compiled(catalog: Catalog) -> bytes:
    """Return the translations as programs read them."""
    made = io.BytesIO()
    mofile.write_mo(made, catalog)
    return made.getvalue()


def main() -> None:
    from django.conf import settings

    settings.configure()
    for language in LANGUAGES:
        path = path_of(language)
        path.parent.mkdir(parents=True, exist_ok=True)
        catalog = read(language) if path.exists() else extracted(language)
        catalog.update(extracted(language), no_fuzzy_matching=True)
        catalog.obsolete.clear()
        path.write_bytes(written(catalog))
        path.with_suffix('.mo').write_bytes(compiled(read(language)))


if __name__ == '__main__':
    main()
