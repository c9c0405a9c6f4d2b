"""Interactive setup of automatic memory: questions, tests, and the files that are written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from cofio.cli import output
from cofio.cli.output import StepOutput, mark, short
from cofio.cli.shared_options import CliContext
from cofio.errors import CofioError, InvalidInput, Misconfigured, Unavailable
from cofio.hooks import endpoint_file, launcher
from cofio.install import checks, files, llm_provider, paths, plan, shell_profile
from cofio.install import clients as client
from cofio.install.llm_provider import Choice
from cofio.install.manifest import NAME, Manifest
from cofio.install.plan import FileResult, InstallPlan
from cofio.server import daemon
from cofio.server.backfill import find
from cofio.settings import Settings


@dataclass
class InstallWizard:
    """The setup in four steps. Everything is decided and tested before the first file is written."""

    session: CliContext
    out: StepOutput
    yes: bool
    provider: str | None
    provider_key: str | None
    model: str
    no_start: bool
    no_mcp: bool
    notify: bool
    trust_hooks: bool
    shell_rc: bool
    dry_run: bool
    results: dict[str, Any] = field(default_factory=dict)
    _step: str = "[3/4]"  # prefix of the next line

    @property
    def settings(self) -> Settings:
        return self.session.settings

    def run(self, chosen: tuple[str, ...]) -> dict[str, Any]:
        """Run the steps; return the results for JSON output."""
        title = "cofio: automatic memory layer setup"
        self.out.line(f"{title}\n{'=' * len(title)}\n")
        clients = self._choose_clients(chosen)
        state = self._check_service()
        choice = self._choose_provider()
        plans = self._make_plans(clients, choice)
        if self.dry_run:
            return self._show(plans, choice)
        self._write(plans, choice, state)
        self._finish(choice)
        return self.results

    # ── clients ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _choose_clients(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
        if chosen:
            return chosen
        clients = paths.installed_clients(self.settings)
        if not clients:
            hint = f"Name a client to set up: {', '.join(paths.CLIENTS)}."
            raise InvalidInput("No supported client was found on this machine.", hint)
        if not self.yes:
            clients = [client for client in clients if click.confirm(f"Set up {paths.CALLED[client]}?", default=True)]
            self.out.line()
        if not clients:
            hint = "Run `cofio install` again and choose at least one. Nothing was written."
            raise InvalidInput("No client was chosen.", hint)
        return tuple(clients)

    # ── 1: the service ────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_service(self) -> dict[str, Any]:
        self.out.begin("[1/4] Checking the service")
        state = daemon.status(self.settings)
        started = False
        if not state["running"] and not self.settings.url and not self.no_start and not self.dry_run:
            self.out.begin("starting it")
            daemon.up(self.settings)
            state, started = daemon.status(self.settings), True
        url = None if str(state["url"]).endswith(":0") else state["url"]  # port not assigned yet
        self.results["service"] = {"url": url, "running": state["answering"], "started": started}
        self._report_service(state)
        return state

    def _report_service(self, state: dict[str, Any]) -> None:
        if state["answering"] and state["key"] in ("ok", "not needed"):
            count = output.count(state["memories"] or 0, "memory", "memories")
            return self.out.end(True, f"({count}, healthy)")
        if state["answering"]:
            self.out.end(False, f"(the key is {state['key']})")
            hint = "Set COFIO_API_KEY to a key that `cofio keys create` printed where the service runs."
            raise Misconfigured(f"The service does not accept the API key: the key is {state['key']}.", hint)
        if self.settings.url:
            self.out.end(False)
            hint = "Start the service there, or omit --url and unset COFIO_URL."
            raise Unavailable(f"No service answers at {self.settings.url}.", hint)
        if state["running"]:
            says = f"The service (pid {state['pid']}) runs and does not answer."
            self.out.end(False, says)
            if not self.no_start and not self.dry_run:
                raise Unavailable(says, "Nothing was written. Run `cofio down --force`, then `cofio install` again.")
            return None
        later = "it would be started" if self.dry_run and not self.no_start else "a session or `cofio up` starts it"
        return self.out.line(f"it is not running; {later}.")

    # ── 2: the provider ───────────────────────────────────────────────────────────────────────────────────────────────

    def _choose_provider(self) -> Choice | None:
        """Return the tested choice of a provider; None for no change."""
        self.out.line("\n[2/4] Extraction provider (for automatic learning):")
        while True:
            choice = self._ask_choice()
            if not (choice and choice.provider):
                self.results["provider"] = None
                return choice
            self.out.begin(f"  Testing {llm_provider.CALLED[choice.provider]}")
            problem = llm_provider.test_choice(self.settings, choice)
            self.out.end(not problem, problem or f"({choice.uses})")
            if not problem:
                self.results["provider"] = {"provider": choice.provider, "model": choice.uses}
                return choice
            if self.yes or self.provider_key or (self.provider and not choice.key_name):  # no answer can be changed
                is_started = self.results["service"]["started"]
                service = " The service was started; `cofio down` stops it." if is_started else ""
                hint = f"Nothing was written.{service} Correct it, or choose another provider, and install again."
                raise Unavailable(f"The provider does not work: {problem}", hint)

    def _ask_choice(self) -> Choice | None:
        name = self.provider or self._ask_provider()
        if name is None or name == llm_provider.SKIP:
            self.out.line(f"  {llm_provider.CHOICES[llm_provider.SKIP]}")
            off = name == llm_provider.SKIP and self.settings.extract_provider
            return llm_provider.Choice(provider="") if off else None
        if self.provider in llm_provider.AGENTS:
            self.out.line(f"  {llm_provider.AGENTS[name]}")
        choice = llm_provider.known_choice(self.settings, name, self.model)
        if not choice.key_name:
            return choice
        if self.provider_key == "-":
            return replace(choice, key=sys.stdin.readline().strip())
        if self.provider_key or self.yes:
            return replace(choice, key=self.provider_key or choice.key)
        beside = " (Enter keeps the current one)" if choice.key else ""
        label = f"  {llm_provider.CALLED[choice.provider]} API key{beside}"
        key = click.prompt(label, default=choice.key, hide_input=True, show_default=False)
        return replace(choice, key=str(key).strip())

    def _ask_provider(self) -> str | None:
        current = self.settings.extract_provider.lower()
        if self.yes:
            return current or None
        choices = {**llm_provider.CHOICES, **llm_provider.offered_agents(self.settings)}
        names = list(choices)
        for number, label in enumerate(choices.values(), 1):
            self.out.line(f"  {number}. {label}")
        usual = names.index(current if current in names else llm_provider.SKIP) + 1
        numbers = click.Choice([str(number + 1) for number in range(len(names))])
        answer = click.prompt("  >", type=numbers, default=str(usual), prompt_suffix=" ", show_choices=False)
        self.out.line()
        return names[int(answer) - 1]

    # ── 3: the hooks ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _make_plans(self, clients: Sequence[str], choice: Choice | None) -> list[InstallPlan]:
        mcp = not self.no_mcp and paths.can_serve()
        options = client.InstallOptions(mcp=mcp, notify=self.notify, trust=self.trust_hooks)
        plans = [client.plan_install(name, self.settings, options) for name in clients]
        if self.shell_rc:
            settings = self.settings
            variables = {"COFIO_HOME": "" if settings.origins["home"] == "default" else str(settings.home)}
            variables |= {"COFIO_URL": settings.url, "COFIO_API_KEY": settings.api_key}
            variables = {name: value for name, value in variables.items() if value}
            plans.append(shell_profile.plan(variables | (choice.variables() if choice else {})))
        for install_plan in plans:
            # report unmergeable files before anything is done
            plan.prepare(install_plan, Manifest.load(self.settings.home))
        return plans

    def _show(self, plans: Sequence[InstallPlan], choice: Choice | None) -> dict[str, Any]:
        self.out.line("\n[3/4] These files would be written:")
        record = Manifest.load(self.settings.home)
        for install_plan in plans:
            changed_paths = plan.changed_paths(install_plan, record)
            self._add_client(install_plan, [(path, "would be written") for path in changed_paths])
            for path in changed_paths:
                self.out.line(f"      {short(path)}")
            for note in install_plan.notes:
                self.out.line(f"    {mark(None)} {note}")
        writes_clients = any(entry["files"] for entry in self.results["clients"].values())
        home_files = self._list_home_files(choice, writes_clients)
        self.results["home"] = {"files": [{"path": str(path), "state": "would be written"} for path in home_files]}
        for path in home_files:
            self.out.line(f"      {short(path)}")
        if not home_files and not writes_clients:
            self.out.line("      none: everything is up to date.")
        self.out.line("\n[4/4] Nothing was written.")
        return {**self.results, "dry_run": True}

    def _add_client(self, install_plan: InstallPlan, files: Sequence[tuple[Path, str]]) -> None:
        self.results.setdefault("clients", {})[install_plan.client] = {
            "files": [{"path": str(path), "state": state} for path, state in files],
            "notes": list(install_plan.notes),
        }

    def _list_home_files(self, choice: Choice | None, writes_clients: bool) -> list[Path]:
        """Return the files in the home folder that would be written, except those that a starting service writes."""
        settings, home = self.settings, self.settings.home
        has_new_choice = bool(choice and not llm_provider.is_written(settings, choice))
        endpoint = (files.read(home / endpoint_file.NAME) or b"").decode(errors="replace").splitlines()[:2]
        needs = {
            launcher.NAME: checks.launcher(settings).state != "ok",
            "config.toml": has_new_choice or bool(self._find_unsaved_address()),
            endpoint_file.NAME: bool(settings.url) and endpoint != [settings.service_url, settings.api_key],
            NAME: writes_clients,
        }
        return [home / name for name, is_needed in needs.items() if is_needed]

    def _write(self, plans: Sequence[InstallPlan], choice: Choice | None, state: dict[str, Any]) -> None:
        settings = self.settings
        self.out.line()
        if launcher.write(settings.home) is None:
            raise Misconfigured(f"{settings.home} cannot be written.", "Check its permissions, or set COFIO_HOME.")
        if settings.url:  # of a remote service
            deadlines = (settings.hook_recall_timeout_ms, settings.hook_capture_timeout_ms)
            endpoint_file.write_endpoint(settings.home, settings.service_url, settings.api_key, deadlines, "")
        for name, value in self._find_unsaved_address().items():
            llm_provider.keep(settings, name, value)
            self.results["address"] = str(settings.home / "config.toml")
        is_changed = choice is not None and not llm_provider.is_written(settings, choice)
        if choice is not None and is_changed:
            self.results["config"] = str(llm_provider.write(settings, choice))

        record = Manifest.load(settings.home)
        for install_plan in plans:
            results = plan.carry_out(install_plan, record, client.TAKES)
            self._add_client(install_plan, [(result.path, result.state) for result in results])
            self._report_files(install_plan, results)
        if is_changed:
            self._restart(state)

    def _find_unsaved_address(self) -> dict[str, str]:
        """Return URL and key of a remote service that config.toml does not contain yet: not only hooks use them."""
        settings, file_settings = self.settings, llm_provider.in_file(self.settings)
        address = {"url": settings.url, "api_key": settings.api_key} if settings.url else {}
        return {name: value for name, value in address.items() if value and value != getattr(file_settings, name)}

    def _report_files(self, install_plan: InstallPlan, results: Sequence[FileResult]) -> None:
        label = paths.CALLED.get(install_plan.client, "Your shell")
        if install_plan.folder:
            content = "the plugin" if install_plan.client == "openclaw" else "hooks"
            self._report_step(f"{label}: installing {content} to {short(install_plan.folder)}/")
        edit_paths = {edit.path for edit in install_plan.edits}
        for result in results:
            if result.path in edit_paths:
                beside = "(unchanged)" if result.state == "unchanged" else ""
                self._report_step(f"{label}: merging config into {short(result.path)}", beside)
        if not results:
            self.out.line(f"{self._step} {label}: nothing to write.")
            self._step = "     "
        for note in install_plan.notes:
            self.out.line(f"      {mark(None)} {note}")

    def _report_step(self, text: str, beside: str = "") -> None:
        self.out.begin(f"{self._step} {text}")
        self.out.end(True, beside)
        self._step = "     "

    def _restart(self, state: dict[str, Any]) -> None:
        """Restart a service of this machine so that it reads the new settings, if that is allowed."""
        if not state["pid"] or not state["answering"] or self.no_start:
            if state["answering"]:
                self.out.line("      The service reads the new settings at its next start.")
            return
        self.out.begin("      Restarting the service with the new settings")
        port = urlsplit(str(state["url"])).port or self.settings.port
        try:
            daemon.down(self.settings)
            daemon.up(Settings.load({**self.session.flags, "port": port}))
        except CofioError as error:  # the setup itself is complete
            self.out.end(False, f"{error.message} Run `cofio down`, then `cofio up`.")
        else:
            self.out.end(True)

    # ── 4: done ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _finish(self, choice: Choice | None) -> None:
        reads = choice.provider if choice else self.settings.extract_provider.lower()
        learns = llm_provider.CALLED.get(reads, "patterns, no model")
        self.out.line("\n[4/4] Done!\n")
        for line in ("Session start: loads project memories", "Every prompt: retrieves relevant context",
                     f"After responses: extracts and stores new facts ({learns})"):  # fmt: skip
            self.out.line(f"  {mark(True)} {line}")
        self.out.line()
        for name, content in (("config", "The provider and its key"), ("address", "The service's address and key")):
            if name in self.results:
                self.out.line(f"  {content} are in {short(Path(self.results[name]))}, readable by you only.")
        if not self.no_mcp and not paths.can_serve():
            self.out.line(
                "  No MCP server was registered: it needs `pip install 'cofio[mcp]'`. Then run `cofio install` again."
            )
        self.out.line("  `cofio doctor` tests the setup. `cofio uninstall` restores every file.")
        self._offer_backfill()

    def _offer_backfill(self) -> None:
        """Report the number of transcripts found; offer to learn from them now if a user is present."""
        from cofio.cli.backfill import backfill

        transcripts, _ = find({client: paths.home_of(client, self.settings) for client in ("claude-code", "codex")})
        if not transcripts:
            return
        self.results["transcripts"] = len(transcripts)
        number = output.count(len(transcripts), "transcript is", "transcripts are")
        self.out.line(f"\n  {number} on this machine. `cofio backfill --dry-run` shows what can be learned from them.")
        if self.yes or self.out.silent or not sys.stdin.isatty():
            return
        if click.confirm("Learn from them now? An estimate is shown first.", default=False):
            click.get_current_context().invoke(backfill)
