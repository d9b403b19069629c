import CipherDatabase
import CipherStore
import Foundation
import PageFormat
import StorePlatform
import Synchronization

/// Stores the pages of one moment that no earlier backup has, on several threads; each stored page is authenticated
/// before.
final class PageCollection: Sendable {
    private let view: PageSnapshot
    private let known: KnownPages
    private let repository: BackupRepository
    private let watch: BackupWatch
    private let path: String
    private let layout: PageLayout
    private let state: Mutex<State>

    private struct State {
        /// The first page that no thread has taken.
        var next: UInt32 = 1
        var pagesDone = 0
        var failure: (any Error)?
        var runs: [PageRun] = []
        /// The packs of the earlier backup, then new ones; nil while pages are collected.
        var packs: [ObjectHash?]
        var newPages = 0
        var newBytes = 0
    }

    /// Where all pages are.
    struct Result {
        let map: PageMap
        let packs: [ObjectHash]
        /// Pages that no earlier backup had.
        let newPages: Int
        /// Bytes of the objects that were stored for them.
        let newBytes: Int
    }

    init(
        of view: PageSnapshot, at path: String, known: KnownPages, into repository: BackupRepository,
        _ watch: BackupWatch
    ) throws {
        self.view = view
        self.path = path
        self.known = known
        self.repository = repository
        self.watch = watch
        layout = try PageLayout(view.key.settings)
        state = Mutex(State(packs: known.packs))
    }

    func run() throws -> Result {
        Workers.run(max(1, ProcessInfo.processInfo.activeProcessorCount)) { _ in
            do { try work() } catch { state.withLock { $0.failure = $0.failure ?? error } }
        }
        return try state.withLock { state in
            if let failure = state.failure { throw failure }
            return try Self.result(&state)
        }
    }

    /// Keeps the packs in which there are pages of this backup.
    private static func result(_ state: inout State) throws -> Result {
        let used = Set(state.runs.map(\.pack)).subtracting([PageRun.zeros]).sorted()
        var packs: [ObjectHash] = []
        for pack in used {
            guard let hash = state.packs[Int(pack)] else {
                throw BrokenInvariant("A page of a backup is in a pack that was not stored.")
            }
            packs.append(hash)
        }
        let places = Dictionary(uniqueKeysWithValues: zip(used, UInt32(0)...))
        let runs = state.runs.map { run in
            PageRun(first: run.first, count: run.count, pack: places[run.pack] ?? run.pack, slot: run.slot)
        }
        return Result(
            map: PageMap(joining: runs), packs: packs, newPages: state.newPages, newBytes: state.newBytes)
    }

    // MARK: One thread

    private struct Worker: ~Copyable {
        var codec: PageCodec
        var builder: PackBuilder
        /// The place of the pack that is being built.
        var pack: UInt32?
        var runs: [PageRun] = []

        mutating func add(_ page: UInt32, pack: UInt32, slot: UInt32) {
            let run = PageRun(first: page, count: 1, pack: pack, slot: slot)
            if let last = runs.last, last.isContinued(by: run) {
                runs[runs.count - 1] = PageRun(
                    first: last.first, count: last.count + 1, pack: last.pack, slot: last.slot)
            } else {
                runs.append(run)
            }
        }
    }

    /// The next pages to look at: as many as a pack has, so that a base has one pack for each.
    private func take() -> ClosedRange<UInt32>? {
        state.withLock { state in
            guard state.failure == nil, state.next <= view.databasePages else { return nil }
            let capacity = UInt32(PageTable.capacity(pageBytes: view.pageBytes))
            let first = state.next
            let last = first + min(capacity - 1, view.databasePages - first)
            state.next = last == .max ? .max : last + 1
            return first...last
        }
    }

    private func work() throws {
        var worker = Worker(
            codec: try PageCodec(keys: PageKeys(view.key)), builder: PackBuilder(pageBytes: view.pageBytes))
        let batch = max(1, BackupLimits.batchBytes / view.pageBytes)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: batch * view.pageBytes, alignment: 4096)
        defer { buffer.deallocate() }
        while let pages = take() {
            for first in stride(from: Int(pages.lowerBound), through: Int(pages.upperBound), by: batch) {
                try watch.check()
                let count = min(batch, Int(pages.upperBound) - first + 1)
                try view.read(firstPage: UInt32(first), count: count, into: buffer)
                for place in 0..<count {
                    let start = place * view.pageBytes
                    let page = UnsafeRawBufferPointer(rebasing: buffer[start..<start + view.pageBytes])
                    try look(at: page, UInt32(first + place), &worker)
                }
                let done = state.withLock { state in
                    state.pagesDone += count
                    return state.pagesDone
                }
                watch.tell(.copying, done, of: view.databasePages, pageBytes: view.pageBytes)
            }
        }
        try flush(&worker)
        let runs = worker.runs
        state.withLock { $0.runs += runs }
    }

    private func look(at page: UnsafeRawBufferPointer, _ number: UInt32, _ worker: inout Worker) throws {
        if number == layout.lockBytePage { return worker.add(number, pack: PageRun.zeros, slot: 0) }
        let tag = layout.tag(of: page)
        let place = known.place(of: number, tag)
        if let place, number > 1 { return worker.add(number, pack: place.pack, slot: place.slot) }
        guard worker.codec.verify(page, number: number) else { throw notAuthentic(number) }
        let hash = try page.sha256
        if let place, known.firstHash == hash { return worker.add(number, pack: place.pack, slot: place.slot) }
        let pack: UInt32
        if let begun = worker.pack {
            pack = begun
        } else {
            pack = state.withLock { state in
                state.packs.append(nil)
                return UInt32(state.packs.count - 1)
            }
            worker.pack = pack
        }
        worker.add(number, pack: pack, slot: worker.builder.add(page, number: number, tag: tag, hash: hash))
        if worker.builder.isFull { try flush(&worker) }
    }

    private func flush(_ worker: inout Worker) throws {
        guard let pack = worker.pack else { return }
        let pages = worker.builder.count
        let (hash, bytes) = try worker.builder.finish()
        let outcome = try repository.store(.pack, bytes, hash: hash)
        worker.pack = nil
        state.withLock { state in
            state.packs[Int(pack)] = hash
            state.newPages += pages
            if outcome == .stored { state.newBytes += bytes.count }
        }
        CrashPoint.reach(.backupPagesCopied)
    }

    private func notAuthentic(_ page: UInt32) -> StoreError {
        StoreError(
            .pageDamaged(page), what: "Page \(page) of \"\(path)\" is not authentic.",
            why: "It was changed, or written under another key or salt.",
            remedy: "Run cipherctl verify. A backup is made of whole databases only.")
    }
}
