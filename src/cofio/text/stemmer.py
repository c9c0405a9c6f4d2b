"""Stemming: "uses", "using" and "used" become one. Approximate but consistent."""

from __future__ import annotations

from functools import lru_cache

from cofio.text.duplicates import normalize_word


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Return the stem of a lower-case word, in its canonical form."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    normal = normalize_word(word)
    return _cut(normal) if normal.isascii() and normal.isalpha() else normal


def _cut(word: str) -> str:
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and not word.endswith("eed") and any(letter in "aeiouy" for letter in rest):
            doubled = len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "lsz"
            word = rest[:-1] if doubled else rest
            break
    if len(word) > 3 and word[-1] == "e" and word[-2] != "e":
        word = word[:-1]
    if word.endswith("is") and len(word) > 5:  # standardise, standardize
        word = word[:-1] + "z"
    return word[:-1] + "i" if len(word) > 3 and word[-1] == "y" and word[-2] not in "aeiou" else word


_IRREGULAR = {
    form: _cut(forms.split("/")[0])
    for forms in """
    use/used/using/uses/utilise/utilize/utilises/utilizes ride/ridden/rode eat/eaten/ate wear/worn/wore hold/held
    draw/drawn/drew drive/driven/drove break/broken/broke take/taken/took throw/thrown/threw show/shown grow/grown/grew
    sing/sung/sang sell/sold buy/bought catch/caught build/built keep/kept send/sent find/found choose/chosen/chose
    write/written/wrote/writing/writes rewrite/rewritten/rewrote/rewriting/rewrites give/given/gave speak/spoken/spoke
    see/seen/saw know/known/knew make/made pay/paid spend/spent meet/met bring/brought run/ran/running put/putting
    cut/cutting set/setting lie/lying die/dying child/children/kid/kids person/people/persons man/men woman/women
    lead/led leave/left/leaving lose/lost win/won begin/began/begun sit/sat/sitting stand/stood fight/fought
    fly/flew/flown drink/drank/drunk swim/swam/swum cling/clung go/went/gone/going rise/rose/risen fall/fell/fallen
    hear/heard feel/felt sleep/slept shut/shutting get/got/gotten/getting teach/taught think/thought say/said
    """.split()
    for form in forms.split("/")
}
