"""Making the notebook of a run from its configuration, fresh or resumed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from recollect.config.schema.config import Config
from recollect.errors import BadFile, NotesFromEvaluation
from recollect.ledger import Note
from recollect.models.loading import Policy
from recollect.notes.bank import NoteSearch
from recollect.notes.distill.distillery import Distillery, Patience
from recollect.notes.distill.endpoint import EndpointWriter
from recollect.notes.distill.writer import RuleWriter, Writer
from recollect.notes.files import read_notes
from recollect.notes.guide import Guide, GuideRules
from recollect.notes.inject import NoteTemplate
from recollect.notes.note import Draft, draft_of, tasks_of
from recollect.notes.remote.client import MemoryClient, RemotePatience
from recollect.notes.remote.link import RemoteNotes
from recollect.notes.remote.report import Reporter
from recollect.notes.remote.search import RemoteRules, RemoteSearch
from recollect.notes.retrieve import Retriever, TextRetriever
from recollect.notes.store_bank import StoreBank
from recollect.rollout.sampler import Sampler
from recollect.store import open_reader, place_of
from recollect.store.base import Store, StoreReader
from recollect.store.records import Batch
from recollect.train.folder import store_in
from recollect.train.noting import Notebook
from recollect.train.policy_writer import PolicyWriter
from recollect.types import NoteId, NoteStatus, RunId, TaskKey
from recollect.wire.address import Address
from recollect.wire.secret import secret


def uses_notes(config: Config) -> bool:
    """Tell whether a run has anything to do with notes."""
    notes = config.notes
    return notes.rollout != "bare" or notes.evaluation != "bare" or config.distill.every > 0


def idle_settings(config: Config) -> list[str]:
    """Say what was set about notes and does nothing; no reason to refuse a run that is a trial."""
    notes, distill, steps = config.notes, config.distill, config.run.steps
    if not uses_notes(config):
        given = {"notes.start_from": notes.start_from, "notes.remote": notes.remote}
        why = "notes.rollout and notes.evaluation are bare, distill.every is 0"
        return [f"{name} is not used: {why}." for name, value in given.items() if value]
    if not distill.every:
        return []
    is_remote = distill.by == "remote"
    first = distill.every + (0 if is_remote else distill.delay)
    if first <= steps:
        return []
    what = (
        "attempts would first be sent"
        if is_remote
        else f"with distill.delay = {distill.delay} the first notes would come"
    )
    idle = f"distill.every = {distill.every} does nothing"
    return [f"{idle}: {what} at step {first}, and the run has run.steps = {steps}."]


def make_notebook(
    config: Config,
    store: Store,
    run: RunId,
    policy: Policy | None,
    trained: Collection[TaskKey],
    evaluated: Collection[TaskKey],
    done: int,
) -> Notebook | None:
    """Make the notebook of a run as it stands after `done` steps; None where it has no use for one.

    NotesFromEvaluation where a note was learnt from a task that is evaluated on, or would be.
    """
    if not uses_notes(config):
        return None
    bank = make_bank(config, store)
    if not done and config.notes.start_from is not None:
        bank.add(_drafts_from(config.notes.start_from), config.notes.workspace)
    learnt_from = trained if config.distill.every else ()
    check_sources(bank.notes(config.notes.workspace, NoteStatus.LIVE), learnt_from, evaluated)
    wants_writer = config.distill.every and config.distill.by != "remote"
    writer = _writer(config, policy) if wants_writer else None
    distillery = None
    if writer is not None:
        d = config.distill
        patience = Patience(d.tries, d.seconds)
        distillery = Distillery(writer, store.distillation, d.delay, d.workers, patience)
    remote = make_remote(config, store, run, bank, evaluated) if config.notes.remote else None
    guide = make_guide(config, remote.search if remote is not None else bank)
    notebook = Notebook(config, store, run, bank, guide, writer, distillery, remote)
    if done and distillery is not None:
        notebook.resume(done)
    return notebook


def check_sources(
    notes: Sequence[Note], trained: Collection[TaskKey], evaluated: Collection[TaskKey]
) -> None:
    """Refuse notes that were learnt from tasks that are evaluated on, and tasks that would be."""
    both = set(evaluated).intersection(trained)
    leaked = [note.id for note in notes if set(tasks_of(note)).intersection(evaluated)]
    if both or leaked:
        raise NotesFromEvaluation(len(both), leaked)


def make_bank(config: Config, store: StoreReader) -> StoreBank:
    """Open the bank of a store, with the retrieval that a configuration asks for."""
    # Of a service's notes each is kept as it came: which are too much alike is its business.
    similar = 1.0 if config.notes.remote else config.distill.max_similarity
    return StoreBank(store, retriever=_retriever(config), max_similarity=similar)


def make_remote(
    config: Config, store: Store, run: RunId, bank: StoreBank, evaluated: Collection[TaskKey]
) -> RemoteNotes:
    """Make the link to the service of notes that a configuration names."""
    r, url = config.remote, config.notes.remote or ""
    patience = RemotePatience(r.seconds, r.tries, r.failures, r.rest)
    token = secret(r.token_variable)
    client = MemoryClient(Address.parse(url), token, patience)
    search = RemoteSearch(
        client,
        bank,
        run,
        RemoteRules(url, r.trust, frozenset(evaluated)),
        known=store.distillation,
        keep=lambda answer: store.commit(Batch(distillations=[answer])),
    )
    if not config.distill.every:
        return RemoteNotes(search)
    # A client of its own: what is told must not hold up what is asked.
    teller = MemoryClient(
        Address.parse(url), token, replace(patience, seconds=config.distill.seconds)
    )
    return RemoteNotes(search, Reporter(teller, config.notes.workspace))


def make_guide(config: Config, bank: NoteSearch, barred: Collection[NoteId] = ()) -> Guide:
    """Make the guide that a configuration describes; it passes over `barred` notes."""
    n = config.notes
    rules = GuideRules(
        rollout=n.rollout,
        share=n.share,
        template=NoteTemplate.parse(n.template),
        place=n.place,
        top_k=n.top_k,
        max_chars=n.max_chars,
        min_trust=n.min_trust,
        min_overlap=n.min_overlap,
        workspace=n.workspace,
        retire_rows=n.retire_rows,
        retire_gain=n.retire_gain,
    )
    return Guide(bank, rules, config.run.seed, tuple(barred))


def _retriever(config: Config) -> Callable[[], Retriever]:
    if config.notes.retrieval == "text":
        return TextRetriever
    from recollect.notes.embedding import embedding_retriever

    return embedding_retriever(config.notes.embedder)


def _writer(config: Config, policy: Policy | None) -> Writer:
    d = config.distill
    if d.by == "rules":
        return RuleWriter()
    if d.by == "endpoint":
        return EndpointWriter(d.url or "", d.model, d.key_variable, d.seconds, d.max_tokens)
    assert policy is not None, "other engines refuse distill.by = policy"
    sampler = Sampler(policy.model, policy.chat.stop_ids, 1)
    most = sampler.max_positions or config.rollout.max_tokens
    temperature = config.rollout.temperature
    return PolicyWriter(policy.chat, sampler, d.max_tokens, most, temperature, config.run.seed)


def _drafts_from(source: str) -> list[Draft]:
    path = place_of(source)
    if isinstance(path, Path) and path.suffix == ".jsonl":
        read = read_notes(path)
        if read.bad:  # nobody would notice that the run has only some of its notes
            raise BadFile(path, f"{len(read.bad):,} of its notes cannot be used: {read.bad[0]}")
        return [draft for _, draft in read.drafts]
    path = store_in(path) if isinstance(path, Path) and path.is_dir() else path
    with open_reader(path) as reader:
        return [draft_of(note) for note in StoreBank(reader).notes(status=NoteStatus.LIVE)]
