import CipherStore
import PageFormat
import StoreCrypto
import StorePlatform

/// Stores the pages of a base that the base before it does not have.
///
/// No key authenticates them: a page is known by its SHA-256. The restoration authenticates each page.
struct BaseCollection {
    let repository: BackupRepository
    let layout: PageLayout
    /// The number of pages.
    let pages: UInt32
    /// Reads pages of the moment.
    let read: (_ firstPage: UInt32, _ count: Int, _ buffer: UnsafeMutableRawBufferPointer) throws -> Void
    /// Called for every 256 KiB of pages.
    let tick: () throws -> Void

    /// Where all pages are.
    struct Result {
        let map: PageMap
        let packs: [ObjectHash]
        let newPages: Int
    }

    /// The pages and packs up to now.
    private struct Progress {
        var builder: PackBuilder
        /// The packs of the base before, then new ones; nil while its pages are collected.
        var packs: [ObjectHash?]
        /// The place of the pack that is being built.
        var pack: UInt32?
        var runs: [PageRun] = []
        var newPages = 0

        mutating func add(_ page: UInt32, pack: UInt32, slot: UInt32) {
            let run = PageRun(first: page, count: 1, pack: pack, slot: slot)
            if let last = runs.last, last.isContinued(by: run) {
                runs[runs.count - 1] = PageRun(
                    first: last.first, count: last.count + 1, pack: last.pack, slot: last.slot)
            } else {
                runs.append(run)
            }
        }

        mutating func placeOfPack() -> UInt32 {
            if let pack { return pack }
            packs.append(nil)
            let new = UInt32(packs.count - 1)
            pack = new
            return new
        }
    }

    /// - Parameter former: The base whose packs are used again; nil for none.
    func run(after former: ReplicaObject?) throws -> Result {
        let known = try former.map { try knownPages($0) } ?? [:]
        var progress = Progress(builder: PackBuilder(pageBytes: layout.pageBytes), packs: former?.packs ?? [])
        let batch = max(1, BackupLimits.batchBytes / layout.pageBytes)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: batch * layout.pageBytes, alignment: 4096)
        defer { buffer.deallocate() }
        for first in stride(from: 1, through: Int(pages), by: batch) {
            try tick()
            let count = min(batch, Int(pages) - first + 1)
            try read(UInt32(first), count, buffer)
            for place in 0..<count {
                let start = place * layout.pageBytes
                let page = UnsafeRawBufferPointer(rebasing: buffer[start..<start + layout.pageBytes])
                try add(page, UInt32(first + place), known, &progress)
            }
        }
        try flush(&progress)
        return try Self.result(progress.runs, progress.packs, progress.newPages)
    }

    private func add(
        _ page: UnsafeRawBufferPointer, _ number: UInt32, _ known: [UInt32: KnownPage], _ progress: inout Progress
    ) throws {
        if number == layout.lockBytePage { return progress.add(number, pack: PageRun.zeros, slot: 0) }
        let hash = try page.sha256
        if let place = known[number], place.hash == Self.short(hash) {
            return progress.add(number, pack: place.pack, slot: place.slot)
        }
        let pack = progress.placeOfPack()
        let slot = progress.builder.add(page, number: number, tag: layout.tag(of: page), hash: hash)
        progress.add(number, pack: pack, slot: slot)
        progress.newPages += 1
        if progress.builder.isFull { try flush(&progress) }
    }

    private func flush(_ progress: inout Progress) throws {
        guard let pack = progress.pack else { return }
        let (hash, bytes) = try progress.builder.finish()
        try repository.store(.pack, bytes, hash: hash)
        progress.packs[Int(pack)] = hash
        progress.pack = nil
    }

    /// Keeps the packs in which there are pages of this base.
    private static func result(_ runs: [PageRun], _ packs: [ObjectHash?], _ newPages: Int) throws -> Result {
        let used = Set(runs.map(\.pack)).subtracting([PageRun.zeros]).sorted()
        let hashes = try used.map { pack in
            guard let hash = packs[Int(pack)] else {
                throw BrokenInvariant("A page of a base is in a pack that was not stored.")
            }
            return hash
        }
        let places = Dictionary(uniqueKeysWithValues: zip(used, UInt32(0)...))
        let placed = runs.map {
            PageRun(first: $0.first, count: $0.count, pack: places[$0.pack] ?? $0.pack, slot: $0.slot)
        }
        return Result(map: PageMap(joining: placed), packs: hashes, newPages: newPages)
    }

    private struct KnownPage {
        let hash: SIMD2<UInt64>
        let pack: UInt32
        let slot: UInt32
    }

    private static func short(_ hash: some Collection<UInt8>) -> SIMD2<UInt64> {
        Array(hash.prefix(16)).withUnsafeBytes { $0.loadUnaligned(as: SIMD2<UInt64>.self) }
    }

    /// The pages of the base before. Pages of a damaged or missing pack are stored again.
    private func knownPages(_ former: ReplicaObject) throws -> [UInt32: KnownPage] {
        guard former.pageBytes == layout.pageBytes else { return [:] }
        var known: [UInt32: KnownPage] = [:]
        do {
            let map = try repository.map(of: former.record())
            for (pack, runs) in Dictionary(grouping: map.runs, by: \.pack) where pack != PageRun.zeros {
                try tick()
                guard let table = try? repository.table(former.packs[Int(pack)], pageBytes: layout.pageBytes),
                    (try? repository.verifyPack(
                        former.packs[Int(pack)], pageBytes: layout.pageBytes, readsPages: false)) != nil
                else { continue }
                for run in runs {
                    for place in 0..<run.count where Int(run.slot + place) < table.count {
                        let slot = run.slot + place
                        guard table.pageNumber(Int(slot)) == run.first + place else { continue }
                        known[run.first + place] = KnownPage(
                            hash: Self.short(table.hash(Int(slot))), pack: pack, slot: slot)
                    }
                }
            }
        } catch let error as StoreError where error.code == .backupDamaged {
            return [:]
        }
        return known
    }
}

extension ReplicaObject {
    /// The base as a record, by which maps and packs are read. It is never stored.
    func record(created: UInt64 = 0) -> BackupRecord {
        BackupRecord(
            facts: BackupFacts(
                storeID: name.storeID, epoch: 0, generation: 0, created: created, pageBytes: pageBytes, pages: pages),
            sequence: 0,
            wal: BackupRecord.WALPlace(
                salt1: position.salts.first, salt2: position.salts.second, frame: position.frame),
            parent: .none, map: map, sidecar: .none, keyLog: .none, library: "", packs: packs)
    }
}
