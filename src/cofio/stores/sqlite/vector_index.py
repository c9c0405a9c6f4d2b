"""The embedded store's vector index: every vector in memory, searched by NumPy, and returned exactly as stored.

    put_many, drop, load ─▶ arrays with spare room ─ publish ─▶ Snapshot ◀─ nearest, neighbours, cosines, pairs, many

A small index is scanned in full. A large one is scanned twice: first the *heads*, the vectors' coordinates in the few
directions in which they differ most (PCA), then the best candidates of that pass in full. The result always has true
cosines; only the first pass can miss a neighbour. So the number of directions needed is measured on the vectors
themselves whenever the heads are made, and if no number suffices the index is scanned in full.

Any number of threads may read, without a lock, while one writes; the caller serialises writers. A reader works on one
Snapshot from start to end, and data that a snapshot shows is never modified:

- a new row goes into room beyond every snapshot, and is shown by the next snapshot;
- a vector is replaced by a new row; the old one becomes a tombstone, and its place is not used again;
- states (live, archived, gone) are copied before they change: one byte per row, 10 µs for 100,000;
- growing and compacting make new arrays; readers of the old ones keep them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cofio.stores.sqlite.blas import one_thread
from cofio.stores.sqlite.knn_blocks import BlockComparison, RowBlock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]  # one unit-length vector
    Matrix: TypeAlias = NDArray[np.float32]  # one unit-length vector per row
    Ids: TypeAlias = NDArray[np.int64]
    Rows: TypeAlias = NDArray[np.int64]  # positions in a snapshot
    Mask: TypeAlias = NDArray[np.bool_]
    States: TypeAlias = NDArray[np.uint8]

GONE, ARCHIVED, LIVE = 0, 1, 2

#: Number of vectors from which the index uses heads. Below, a scan of all columns takes 0.25 ms anyway.
LARGE = 4_096
#: Numbers of directions tried for the heads, cheapest first. More than half the dimension would save nothing.
WIDTHS = (64, 96, 128, 160, 192, 256, 384, 512)
#: Candidates of the first pass: one row in so many, and so many more per requested hit.
ONE_IN, PER_HIT = 100, 4
#: Calibration must find this share of the true neighbours among half as many candidates as a search has.
RECALL = 0.99
#: Queries that calibration makes up, neighbours of each, and the maximum size of the matrix in numbers.
TRIALS, NEIGHBOURS, TRIAL_SIZE = 64, 10, 1 << 24
#: Maximum number of vectors from which directions are computed, and rounds of subspace iteration.
PCA_ROWS, PCA_ROUNDS = 8_192, 2
#: Rows copied together, and the side of a block of pairs: 16 MiB of cosines.
CHUNK, BLOCK = 4_096, 2_048
#: Rows whose neighbours are searched for together, among as many at a time: 2 ms of work on one core. The pause after
#: each such product, relative to the time that it took.
STRIP, PAUSE = 512, 0.5
#: Selecting rows is cheaper than a full scan up to one row in so many; looking ids up, up to so many ids.
PICKED, LOOKED_UP = 16, 1_024
#: Bound for the difference of float32 sums of the same numbers, which depends on how BLAS groups them.
ROUNDING = np.float32(2e-6)
#: Offset that ranks an excluded row below every other.
HIDDEN = np.float32(1e30)


class VectorIndex:
    """Unit-length vectors by id. Lock-free for readers, one writer at a time; unknown ids are passed over."""

    _snapshot: Snapshot  # all that readers may access; the rest belongs to the writer
    _ids: Ids  # these three and the heads have spare room, and are filled up to the count
    _matrix: Matrix
    _states: States
    _heads: Matrix | None
    _basis: Matrix | None
    _where: dict[int, int]
    _count: int
    _calibrated_at: int

    def __init__(self, dimension: int, *, large: int = LARGE) -> None:
        self.dimension = dimension  # the length of a vector
        self._large = max(large, 2 * TRIALS)  # calibration needs at least so many
        self.load(np.empty(0, np.int64), np.empty((0, dimension), np.float32), np.empty(0, np.bool_))

    def __len__(self) -> int:
        """Return the number of vectors, archived ones included."""
        return len(self._snapshot.where)

    def many(self, ids: Sequence[int] | Ids) -> tuple[Ids, Matrix]:
        """Return those of these ids that have a vector, in the order asked, and these vectors, one per row."""
        snapshot, sought = self._snapshot, np.asarray(ids, np.int64)
        rows = snapshot.find(sought)
        rows = rows[np.argsort(snapshot.ids[rows])]
        stored_ids = snapshot.ids[rows]
        places = np.searchsorted(stored_ids, sought)
        is_stored = places < len(stored_ids)
        is_stored[is_stored] = stored_ids[places[is_stored]] == sought[is_stored]
        return sought[is_stored], snapshot.matrix[rows[places[is_stored]]]

    def live(self, within: Ids | None = None) -> Ids:
        """Return the ids of the live vectors, highest first; only of a set, if given."""
        snapshot = self._snapshot
        return np.sort(snapshot.ids[snapshot.allowed(LIVE, within)])[::-1]

    def nearest(
        self, query: Vector, k: int, *, archived: bool = False, within: Ids | None = None
    ) -> tuple[Ids, Vector]:
        """Return the ids and cosines of the k live vectors nearest to the query, best first, ties by lower id.

        `archived` includes archived vectors, `within` excludes all others.
        """
        snapshot = self._snapshot
        query = self._rows_of(query, 1)[0]
        if k < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        rows = snapshot.candidates(query, k, ARCHIVED if archived else LIVE, within)
        return snapshot.best(rows, query, k)

    def cosines(self, query: Vector, ids: Sequence[int] | Ids) -> dict[int, float]:
        """Return the cosine of each of these ids, archived ones included."""
        snapshot = self._snapshot
        query = self._rows_of(query, 1)[0]
        rows = snapshot.find(np.asarray(ids, np.int64))
        return dict(zip(snapshot.ids[rows].tolist(), snapshot.cosines(rows, query).tolist(), strict=True))

    def pairs(self, threshold: float, within: Ids | None = None) -> Iterator[tuple[int, int, float]]:
        """Yield each pair of live vectors with a cosine of at least the threshold: lower id, higher id, cosine.

        The pairs are those of the moment of the first request. A cosine below the threshold by a rounding error counts.
        """
        snapshot = self._snapshot
        rows = np.flatnonzero(snapshot.allowed(LIVE, within))
        rows = rows[np.argsort(snapshot.ids[rows])]
        ids = snapshot.ids[rows]
        for top in range(0, len(rows), BLOCK):
            left = snapshot.matrix[rows[top : top + BLOCK]]
            for side in range(top, len(rows), BLOCK):
                cosines = left @ snapshot.matrix[rows[side : side + BLOCK]].T
                low, high = np.nonzero(cosines >= np.float32(threshold) - ROUNDING)
                # Ids ascend along both sides, so a block on the diagonal contains each pair twice, and each row with
                # itself.
                is_pair = low + top < high + side
                low, high = low[is_pair], high[is_pair]
                values = np.clip(cosines[low, high], -1, 1)
                yield from zip(ids[low + top].tolist(), ids[high + side].tolist(), values.tolist(), strict=True)

    def neighbours(
        self, ids: Sequence[int] | Ids, threshold: float, k: int
    ) -> Iterator[tuple[int, list[tuple[int, float]]]]:
        """Yield the k nearest among these of each live one of them, with a cosine of at least the threshold.

        Best first, ties by lower id; ids without neighbours are skipped. The state is that of the first request.
        Deliberately slow, so that searches do not wait: small products with a pause after each.
        """
        snapshot = self._snapshot
        rows = snapshot.find(np.unique(np.asarray(ids, np.int64)))
        rows = rows[snapshot.states[rows] == LIVE]
        rows = rows[np.argsort(snapshot.ids[rows])]
        least = np.float32(threshold) - ROUNDING
        strips = [RowBlock(rows, slice(at, at + STRIP), least, k) for at in range(0, len(rows) if k > 0 else 0, STRIP)]
        with one_thread():
            meetings = BlockComparison(snapshot.matrix, rows, self._heading(snapshot.matrix, rows))
            for place, strip in enumerate(strips):
                for other in strips[place:]:
                    start = time.thread_time()
                    strip.meet(other, *meetings.between(strip, other))
                    time.sleep(PAUSE * (time.thread_time() - start))
                yield from strip.take_neighbours(snapshot.ids)

    def _heading(self, matrix: Matrix, rows: Rows) -> Matrix | None:
        """Return a third of the directions, those that hold most of these vectors; None if there are few vectors."""
        if len(rows) < self._large:
            return None
        rng = np.random.default_rng(0)
        sample = matrix[np.sort(rng.permutation(rows)[:PCA_ROWS])]
        return np.ascontiguousarray(_find_directions(sample, rng)[:, : self.dimension // 3])

    def load(self, ids: Ids, matrix: Matrix, live: Mask) -> None:
        """Replace all vectors by these.

        The matrix is handed over: if it is float32 and contiguous it is used as it is, so it must not be modified
        afterwards.
        """
        ids, matrix = np.array(ids, np.int64), self._rows_of(matrix, len(ids))
        where = dict(zip(ids.tolist(), range(len(ids)), strict=True))
        if len(where) != len(ids):
            raise ValueError("Duplicate ids.")
        self._heads = self._basis = None
        self._calibrated_at = 0
        self._ids, self._matrix, self._where, self._count = ids, matrix, where, len(ids)
        self._states = np.where(live, LIVE, ARCHIVED).astype(np.uint8)
        self._settle()

    def put_many(self, ids: Sequence[int] | Ids, matrix: Matrix, live: bool | Mask = True) -> None:
        """Store the vectors under these ids, replacing other ones. Readers see all of them or none."""
        matrix = self._rows_of(matrix, len(ids))
        last = {int(memory_id): at for at, memory_id in enumerate(ids)}
        positions = np.fromiter(last.values(), np.int64, len(last))
        new_ids = np.fromiter(last, np.int64, len(last))
        states = np.where(np.broadcast_to(live, len(ids)), LIVE, ARCHIVED)[positions]
        replaced = [self._where[memory_id] for memory_id in last if memory_id in self._where]
        start, end = self._count, self._count + len(last)
        self._make_room(end)
        if replaced:
            self._bury(replaced)
        self._ids[start:end], self._matrix[start:end], self._states[start:end] = new_ids, matrix[positions], states
        if self._heads is not None and self._basis is not None:
            self._heads[start:end] = self._matrix[start:end] @ self._basis
        self._where.update(zip(last, range(start, end), strict=True))
        self._count = end
        self._settle()

    def drop(self, memory_id: int) -> None:
        """Remove the vector."""
        row = self._where.pop(memory_id, None)
        if row is not None:
            self._bury([row])
            self._settle()

    def _rows_of(self, vectors: Any, count: int) -> Matrix:
        """Return the vectors as a float32 matrix of so many rows. NaN is rejected: one would corrupt every search."""
        matrix: Matrix = np.require(vectors, np.float32, ["C", "A"])
        matrix = matrix[np.newaxis] if matrix.ndim == 1 else matrix
        if matrix.shape != (count, self.dimension):
            raise ValueError(f"Expected {count} vectors of {self.dimension} numbers, not {matrix.shape}.")
        if not np.isfinite(np.vecdot(matrix, matrix)).all():
            raise ValueError("A vector contains a non-finite number.")
        return matrix

    def _publish(self) -> None:
        """Show the present arrays to readers. A single assignment, so they see all of it or nothing."""
        count = self._count
        self._snapshot = Snapshot(
            ids=self._ids[:count],
            matrix=self._matrix[:count],
            states=self._states[:count],
            heads=None if self._heads is None else self._heads[:count],
            basis=self._basis,
            where=self._where,
        )

    def _settle(self) -> None:
        """Publish; compact if there are many tombstones, and make new heads if the number of vectors calls for it."""
        if 4 * (self._count - len(self._where)) > self._count:
            self._compact()
        # Making heads takes a moment. The new rows can be found meanwhile.
        self._publish()
        fits = self._calibrated_at // 2 <= len(self._where) < 2 * self._calibrated_at
        if len(self._where) >= self._large and not fits:
            rows = np.flatnonzero(self._states[: self._count] != GONE)
            self._heads, self._basis, self._calibrated_at = None, _calibrate_basis(self._matrix, rows), len(rows)
            if self._basis is not None:
                self._heads = np.empty((len(self._ids), self._basis.shape[1]), np.float32)
                np.matmul(self._matrix[: self._count], self._basis, out=self._heads[: self._count])
            self._publish()

    def _bury(self, rows: list[int]) -> None:
        # A copy: snapshots show the old array, and a search must not find a row that was live when it read the mask and
        # is gone when it reads the cosine, or both rows of a replaced vector, or neither.
        self._states = self._states.copy()
        self._states[rows] = GONE

    def _make_room(self, count: int) -> None:
        """Ensure space for so many rows. Pages that were never written cost no memory."""
        if count <= len(self._ids):
            return
        capacity = max(count, 2 * len(self._ids), 64)
        self._ids = _copy_rows(self._ids, self._count, capacity)
        self._matrix = _copy_rows(self._matrix, self._count, capacity)
        self._states = _copy_rows(self._states, self._count, capacity)
        if self._heads is not None:
            self._heads = _copy_rows(self._heads, self._count, capacity)

    def _compact(self) -> None:
        rows = np.flatnonzero(self._states[: self._count] != GONE)
        ids = self._ids[rows]
        if len(rows) < self._large:
            self._heads = self._basis = None
            self._calibrated_at = 0
        elif self._heads is not None:
            self._heads = self._heads[rows]
        # A new map too: the old one belongs to the old rows, which snapshots still show.
        self._where = dict(zip(ids.tolist(), range(len(rows)), strict=True))
        self._ids, self._matrix, self._states, self._count = ids, self._matrix[rows], self._states[rows], len(rows)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Immutable view for a reader: row i of each array is one vector. Only `where` may change."""

    ids: Ids
    matrix: Matrix
    states: States
    heads: Matrix | None
    basis: Matrix | None
    where: dict[int, int]  # id to row. Owned by the writer, so it may be ahead of the arrays; `find` allows for that

    def find(self, ids: Ids) -> Rows:
        """Return the rows of these ids, each once."""
        if ids.size <= LOOKED_UP:
            hints = (self.where.get(memory_id, -1) for memory_id in ids.tolist())
            rows = np.unique(np.fromiter(hints, np.int64, ids.size))
            # A row is never reused, and the writer changes the map before it publishes. So a visible row that is still
            # in the map has always been this id's. A row that is not visible yet is a replacement: the old one is
            # wanted.
            if not rows.size or rows[-1] < len(self.ids):
                return rows[rows >= 0]
        return np.flatnonzero(np.isin(self.ids, ids) & (self.states != GONE))

    def allowed(self, least: int, within: Ids | None) -> Mask:
        """Return a mask of rows with at least this state and, if a set is given, in it."""
        mask: Mask = self.states >= least
        if within is None:
            return mask
        within = np.asarray(within, np.int64)
        if within.size > LOOKED_UP:
            return mask & np.isin(self.ids, within)
        chosen = np.zeros(len(mask), np.bool_)
        chosen[self.find(within)] = True
        return mask & chosen

    def candidates(self, query: Vector, k: int, least: int, within: Ids | None) -> Rows:
        """Return rows that contain the k nearest allowed ones: certainly without heads, almost certainly with them."""
        allowed = self.allowed(least, within)
        total, count = len(allowed), int(np.count_nonzero(allowed))
        if count <= max(total // PICKED, k):
            return np.flatnonzero(allowed)
        depth = count // ONE_IN + PER_HIT * k
        if self.heads is not None and self.basis is not None and depth <= count // PICKED:
            scores = self.heads @ (query @ self.basis)
        else:
            scores, depth = self.matrix @ query, k
        if count < total:
            # Arithmetic: with half of 100,000 rows hidden it takes a tenth of the time of a masked assignment.
            scores -= HIDDEN * ~allowed
        # Include all rows that tie for the last place, so that the id decides between equals.
        last = np.partition(scores, total - depth)[total - depth]
        return np.flatnonzero(scores >= last - ROUNDING)

    def best(self, rows: Rows, query: Vector, k: int) -> tuple[Ids, Vector]:
        """Return the ids and cosines of the k best of these rows."""
        cosines, ids = self.cosines(rows, query), self.ids[rows]
        if k < len(rows):
            is_near = cosines >= np.partition(cosines, len(rows) - k)[len(rows) - k]
            cosines, ids = cosines[is_near], ids[is_near]
        order = np.lexsort((ids, -cosines))[:k]
        return ids[order], cosines[order]

    def cosines(self, rows: Rows, query: Vector) -> Vector:
        """Return the cosine of each of these rows. Equal vectors have equal cosines, wherever they are stored."""
        cosines = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), CHUNK):
            chunk = slice(start, start + CHUNK)
            # Not `@`: its last bits can depend on a row's position in its block.
            cosines[chunk] = np.vecdot(self.matrix[rows[chunk]], query)
        return np.clip(cosines, -1, 1)


def _copy_rows(array: NDArray[Any], count: int, capacity: int) -> NDArray[Any]:
    """Return a new array with room for so many rows, the first of them copied."""
    enlarged = np.empty((capacity, *array.shape[1:]), array.dtype)
    enlarged[:count] = array[:count]
    return enlarged


def _calibrate_basis(matrix: Matrix, rows: Rows) -> Matrix | None:
    """Return the fewest directions that find the neighbours of made-up queries, as columns; None if none suffice.

    A query is the midpoint of two random vectors: farther from all of them than they are from each other, like a
    question. The vectors themselves would give results that are too good. With 495 real questions against 6,165 real
    sentences the first pass misses ten times as much as with the sentences, and up to twice as much as with such
    midpoints. So the midpoints get only half the candidates that a search has.
    """
    rng = np.random.default_rng(0)
    rows = rng.permutation(rows)
    basis = _find_directions(matrix[rows[:PCA_ROWS]], rng)
    sample = matrix[rows[: TRIAL_SIZE // matrix.shape[1]]]
    trials = np.arange(TRIALS)
    queries = sample[trials] + sample[trials + TRIALS]
    queries /= np.maximum(np.linalg.norm(queries, axis=1, keepdims=True), ROUNDING)
    scores = queries @ sample.T
    scores[trials, trials] = scores[trials, trials + TRIALS] = -np.inf
    neighbours = np.argpartition(scores, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS:]
    handed_on = (len(sample) // ONE_IN + PER_HIT * NEIGHBOURS) // 2
    for width in (width for width in WIDTHS if width <= basis.shape[1]):
        # The products of the heads, without making the heads: project the queries, not the sample.
        scores = (queries @ basis[:, :width] @ basis[:, :width].T) @ sample.T
        last = np.partition(scores, -handed_on, axis=1)[:, -handed_on, np.newaxis]
        if np.mean(np.take_along_axis(scores, neighbours, axis=1) >= last) >= RECALL:
            return np.ascontiguousarray(basis[:, :width])
    return None


def _find_directions(sample: Matrix, rng: np.random.Generator) -> Matrix:
    """Return the orthonormal directions that hold most of these vectors' length, as columns, strongest first.

    By subspace iteration, which takes 1.5 s for 3,072 dimensions; all eigenvectors would take 8 s. Not centred: dot
    products are to be preserved, not distances from the mean.
    """
    dimension = sample.shape[1]
    basis = rng.standard_normal((dimension, min(dimension, WIDTHS[-1] + 32)), np.float32)
    for _ in range(PCA_ROUNDS):
        basis = np.linalg.qr(sample.T @ (sample @ basis)).Q
    heads = sample @ basis
    _, turn = np.linalg.eigh(heads.T @ heads)
    strongest: Matrix = (basis @ turn[:, ::-1])[:, : dimension // 2]
    return strongest
