"""What stands, told by signs."""

from __future__ import annotations

import pytest

from cofio import standing

STANDS = [
    ("db is postgres 15 on RDS btw, not mysql", {"states", "definite", "contrast"}),
    ("We're going with Kafka instead of RabbitMQ, because we need replay", {"decided", "contrast", "reason", "ours"}),
    ("all handlers go through withAuth(), no exceptions", {"states", "rule", "definite", "contrast"}),
    ("The audit got moved to April 2.", {"states", "change", "dated", "definite"}),
    ("Build system is Bazel now, the old script is gone", {"states", "change", "definite"}),
    ("nope, default branch is main, not master", {"corrects", "states", "contrast"}),
    ("Deniz is the lead of the platform team", {"states", "owned"}),
    ("Wir nutzen inzwischen Poetry statt pip", {"states", "ours", "change", "contrast"}),
    ("Ya no usamos Webpack, ahora es Vite", {"states", "change", "definite"}),
    ("On déploie uniquement le mardi, jamais le vendredi", {"states", "rule", "contrast", "ours"}),
]
STANDS_NOT = {
    "told to do": [
        "rename the table to orders_v2 and never touch it again",
        "build the image for arm64 now, not for x86",
        "please run only the tests in api/ now",
        "kannst du bitte alle Tests in api/ laufen lassen",
    ],
    "supposed or somebody else's": [
        "maybe we switch to Bun now, not Node",
        "my colleague is always using Vim now, not VS Code",
        "Bob said we moved to Postgres 16, not 15",
        "we're thinking about Kafka instead of RabbitMQ, nothing is decided",
        "yeah because we always deploy on Fridays now",
    ],
    "of the moment, or of the speaker": [
        "CI is on Node 20 right now, not on 22",
        "I moved to Chapter 3 now, not Chapter 2",
        "For this experiment the batch size is only 8",
        "the pods are at 0 for the next ten minutes, not at 3",
    ],
    "pointing, or trouble": [
        "it is always null in prod, not in staging",
        "that is only in the v2 branch now",
        "the build is broken on Node 20, not on 22",
    ],
    "too little": ["the button is 16 px too low", "we need a new page for that", "use pnpm", "the cursor is on 42"],
    "a password": ["our staging password is winter-Frost-77 now, not winter-Frost-76"],
}


@pytest.mark.parametrize(("sentence", "signs"), STANDS)
def test_several_signs_tell_what_stands(sentence: str, signs: set[str]) -> None:
    assert signs <= set(standing.signs(sentence))
    assert standing.may_stand(sentence)


@pytest.mark.parametrize(("why", "sentence"), [(why, each) for why, some in STANDS_NOT.items() for each in some])
def test_nothing_stands_that_is(why: str, sentence: str) -> None:
    assert not standing.may_stand(sentence), why
    assert not standing.stands(sentence), why


def test_to_be_kept_a_sentence_needs_three_signs_that_differ_and_a_firm_one() -> None:
    assert standing.may_stand("We decided to do it later")  # a decision counts double
    assert not standing.stands("We decided to do it later")
    assert standing.may_stand("we all have our own ways")
    assert not standing.stands("we all have our own ways")  # states, rule and ours: none of them is firm
    assert standing.stands("we always deploy with ArgoCD")
