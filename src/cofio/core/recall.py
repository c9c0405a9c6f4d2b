"""Recall: the context blocks that are injected into sessions and prompts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from cofio.core.search import SearchService
from cofio.domain_knowledge import context, mentions
from cofio.ingest import sanitize
from cofio.ingest.manipulation import find_manipulation
from cofio.ingest.sanitize.third_party import find_third_party
from cofio.ingest.writer import check_author
from cofio.models.episodes import EpisodeHit
from cofio.models.memory import (
    MAX_LABEL,
    MAX_TEXT,
    Briefing,
    Hit,
    Memory,
    Query,
    Scope,
    check_bool,
    check_int,
    check_text,
    to_utc_iso,
)
from cofio.ports import Clock
from cofio.retrieval import enrich_prompt, hybrid, recall
from cofio.retrieval.episodes import EpisodeService
from cofio.retrieval.log import RetrievalLog
from cofio.retrieval.recall import CurrentSession
from cofio.staleness import StalenessChecker
from cofio.stores.access import Access
from cofio.text import briefing
from cofio.text.briefing import digest

_AGENT_TURN = re.compile(r"^Assistant: ", re.MULTILINE)
_LOGGED = 1_000  # prompt characters checked for secrets; the log keeps fewer


@dataclass(eq=False)
class RecallService:
    """Builds context blocks from the memories that one caller may see."""

    access: Access
    clock: Clock
    search: SearchService
    episodes: EpisodeService
    log: RetrievalLog
    staleness: StalenessChecker
    relevance: recall.Relevance
    start_tokens: int

    def recall(
        self,
        prompt: str = "",
        *,
        project: str = "",
        injected: Mapping[int, str] = MappingProxyType({}),
        by: str = "library",
        k: int | None = None,
        client: str = "",
        session: str = "",
        since: str = "",
    ) -> Briefing:
        """Return the context block for a session start (no prompt) or for a prompt. An empty briefing is falsy.

        `injected` is what the session already received (`Briefing.injected` of earlier calls) and is left out. So are
        memories learned in this `session` of this `client` from `since` on: the agent still has those words in its
        context.
        """
        check_author(by)
        current = CurrentSession(client, session, since)
        if not prompt:
            return self._brief_start(project, injected, current, k, by)
        most = check_int(recall.AT_PROMPT if k is None else k, "k", least=1, most=recall.MOST)
        exactly, in_words = self._match_knowledge(prompt, injected)
        questions, spare = recall.questions(prompt), sum(memory_id > 0 for memory_id in injected) + len(in_words)

        def is_known(memory: Memory) -> bool:
            return memory.id in in_words or current.has(memory) or digest(memory.text) in texts

        texts = set(injected.values())
        queries = self.relevance.queries(questions, Scope(visible_in=project), most, spare)
        hits = self._select_relevant(questions, self.search.run(queries), most, is_known)
        memories = recall.distinct([hit.memory for hit in hits], injected.values())
        block = recall.build_briefing(
            recall.take_first(memories, most, self.staleness.check),
            briefing.PROMPT,
            exactly=exactly,
            reader=self.access.user,
        )
        block = block or self._brief_episodes(questions, project, injected, current)
        self.log.note(
            [memory for memory in memories if memory.id in block.injected], sanitize.redact(prompt[:_LOGGED]), by
        )
        if not briefing.is_trivial(prompt):  # trivial prompts such as "yes" trigger no search
            self.log.inject(block, "prompt", by)
        return block

    def _brief_episodes(
        self, questions: Sequence[str], project: str, injected: Mapping[int, str], current: CurrentSession
    ) -> Briefing:
        """Return passages of earlier sessions, if no memory matches and a passage clearly does."""
        scope, least = Scope(visible_in=project), recall.SAID_SCORE
        hits = [
            hit
            for question in questions
            for hit in self.episodes.find(Query(text=question, k=recall.SAID + 3, min_score=least, scope=scope))
            if (not current.session or hit.passage.session != current.session) and self._is_own_passage(hit)
        ]
        return recall.build_episode_briefing(hits, injected)

    def _is_own_passage(self, hit: EpisodeHit) -> bool:
        """Return whether a passage may be injected: it has no text of others and nothing that manipulates an agent."""
        (episode,) = self.access.store.episodes.get([hit.episode]) or (None,)
        if episode is None or find_manipulation(hit.text):
            return False
        said = _AGENT_TURN.split(episode.text)[0].removeprefix("User: ")
        others = (said[passage.start : passage.end] for passage in find_third_party(said))
        lines = (line.strip() for text in others for line in text.splitlines())
        return not any(line and line in hit.text for line in lines)

    def _brief_start(
        self, project: str, injected: Mapping[int, str], current: CurrentSession, k: int | None, by: str
    ) -> Briefing:
        """Return the block for a session start. Its memories do not count as retrievals: no query was made."""
        most = None if k is None else check_int(k, "k", least=1, most=recall.MOST)
        rule = recall.start_rule(self.start_tokens, self.clock(), most)
        digests = set(injected.values())
        entries = [
            (memory, freshness)
            for memory, freshness in recall.at_start(
                self.access.store, project, rule, self.staleness.check, self.access.user
            )
            if digest(memory.text) not in digests and not current.has(memory)
        ]
        block = recall.build_briefing(entries, briefing.START, reader=self.access.user)
        self.log.inject(block, "start", by)
        return block

    def _select_relevant(
        self,
        questions: Sequence[str],
        answers: Sequence[Sequence[Hit]],
        most: int,
        is_known: Callable[[Memory], bool] = lambda _: False,
    ) -> list[Hit]:
        """Return the hits relevant to the questions, best first, without known memories."""
        merged = recall.merge(answers)
        candidates = [hit for hit in merged if recall.is_recallable(hit.memory) and not is_known(hit.memory)]
        hits = {hit.id: hit for hit in self.relevance.relevant(questions, candidates, most)}
        order = hybrid.newer_first({memory_id: hit.score for memory_id, hit in hits.items()}, self.access.store)
        return [hits[memory_id] for memory_id in order]

    def _match_knowledge(
        self, prompt: str, injected: Mapping[int, str]
    ) -> tuple[list[briefing.BriefingLine], set[int]]:
        """Return new domain knowledge lines for what a prompt names, and the memories that would only repeat them."""
        if briefing.is_trivial(prompt):
            return [], set()
        matches = mentions.find_mentions(prompt, self.access.store.domain, self.access.viewer)
        sure = [match for match in matches if match.claim.confidence >= recall.LEAST_SURE]
        return recall.new_exact_lines(context.briefing_lines(sure, self.clock), injected)

    def recall_context(
        self,
        query: str,
        *,
        max_memories: int = 3,
        max_patterns: int = 5,
        max_thresholds: int = 5,
        at: str = "",
        by: str = "library",
    ) -> str:
        """Return background knowledge for a monitoring agent, as text inside `<relevant-context>`.

        Holds matching memories; patterns and thresholds, those named in the query first, then by confidence, and which
        of them trigger at a value in it; correlations of what it names; and the seasons active at a time (default:
        now). "No prior context found." if there is nothing.
        """
        check_text(query, "query", MAX_TEXT)
        check_int(max_memories, "max_memories", least=0, most=context.MOST)
        check_author(by)
        caps = {"max_patterns": max_patterns, "max_thresholds": max_thresholds}
        config = context.AutoRecallConfig(max_memory_results=max_memories, **caps)
        matches = mentions.find_mentions(query, self.access.store.domain, self.access.viewer)
        when = to_utc_iso(at) if at else self.clock()
        rows = context.shown_rows(matches, self.access.store.domain, when, config, self.access.viewer)
        questions = recall.questions(query) if max_memories else []
        spare = max_memories + len(rows.memories)
        answers = self.search.run(self.relevance.queries(questions, Scope(), max_memories, spare))
        relevant = self._select_relevant(questions, answers, max_memories, lambda memory: memory.id in rows.memories)
        hits = recall.distinct(relevant)[:max_memories]
        self.log.note(hits, sanitize.redact(query[:_LOGGED]), by)
        labelled = [self.search.add_freshness(hit) for hit in hits]
        return context.build_recall_context(query, rows.beside(labelled, self.access.user), config)

    def enrich_prompt(
        self,
        query: str,
        session: str = "",
        include_team: bool = False,
        max_facts: int = enrich_prompt.USUAL,
        *,
        by: str = "library",
    ) -> str:
        """Return memories that answer a question, as a block for the user's message of a model request; "" if none do.

        "## Relevant Personal Context:" holds what was said in the session; without a session, what is private to the
        caller or global. "## Relevant Team Context:", on request, holds what the team knows. Each lists up to
        `max_facts`, best first, each fact once, and only those relevant enough for `recall`.
        """
        check_text(query, "query", MAX_TEXT)
        check_text(session, "session", MAX_LABEL)
        check_bool(include_team, "include_team")
        check_int(max_facts, "max_facts", least=1, most=enrich_prompt.MOST)
        check_author(by)
        questions = recall.questions(query)
        scopes = [enrich_prompt.personal_memories(session), *([enrich_prompt.team_memories()] if include_team else [])]
        answers = self.search.run(
            [scoped for scope in scopes for scoped in self.relevance.queries(questions, scope, max_facts, max_facts)]
        )
        personal, shared = answers[: len(questions)], answers[len(questions) :]
        own = enrich_prompt.first_hits(self._select_relevant(questions, personal, max_facts), max_facts)
        of_team = enrich_prompt.first_hits(self._select_relevant(questions, shared, max_facts), max_facts, own)
        self.log.note([*own, *of_team], sanitize.redact(query[:_LOGGED]), by)
        return enrich_prompt.render(own, of_team, self.staleness.check, self.access.user)
