import CipherStore
import PageFormat
import StorePlatform
import Synchronization

/// The pages of an earlier backup of a store: where each is, and by which tag the same page is recognized.
///
/// SQLCipher's authentication code identifies the content of a page of one number under one key, and every stored page
/// was authenticated when it was stored. So a page with the same tag is not stored again. The clear bytes of page 1 are
/// not authenticated: its hash is compared. A pack may have been damaged since: each backup reads and hashes some, in a
/// small repository all of them (``BackupLimits/sampledBytes``).
struct KnownPages: Sendable {
    /// The packs of the earlier backup, in the order of its record.
    let packs: [ObjectHash]
    private var tags: [PageTag] = []
    /// The pack and the slot of each page; `unknown` for a page that must be stored.
    private var places: [UInt64] = []
    /// The hash of page 1.
    private(set) var firstHash: [UInt8]?
    /// Objects that are damaged or missing: their pages are stored again.
    private(set) var notices: [String] = []

    private static let unknown = UInt64.max

    /// No earlier backup.
    init() { packs = [] }

    /// Reads the map and the tables of a backup, which must be authentic.
    init(_ backup: StoredBackup, in repository: BackupRepository, _ check: () throws -> Void) throws {
        packs = backup.record.packs
        let map: PageMap
        do {
            map = try repository.map(of: backup.record)
        } catch let error as StoreError {
            notices = ["\(error.what) \(error.why) All pages are stored again."]
            return
        }
        let count = Int(backup.pages) + 1
        tags = [PageTag](repeating: .zero, count: count)
        places = [UInt64](repeating: Self.unknown, count: count)
        let sample = Atomic<Int>(BackupLimits.sampledBytes)
        let packs = packs
        let uses = Dictionary(grouping: map.runs.filter { $0.pack != PageRun.zeros }, by: \.pack).shuffled()
        for start in stride(from: 0, to: uses.count, by: BackupLimits.packsAtOnce) {
            try check()
            let some = Array(uses[start..<min(uses.count, start + BackupLimits.packsAtOnce)])
            let found = try repository.place.map(some.map { packs[Int($0.key)] }) { hash in
                try Self.table(hash, of: backup, in: repository, sample)
            }
            for (use, table) in zip(some, found) {
                switch table {
                case .success(let table): add(use.value, table)
                case .failure(let error):
                    notices.append("\(error.what) \(error.why) Its pages are stored again.")
                }
            }
        }
    }

    /// Reads the table of a pack, and hashes its pages while there are bytes left of the sample.
    private static func table(
        _ hash: ObjectHash, of backup: StoredBackup, in repository: BackupRepository, _ sample: borrowing Atomic<Int>
    ) throws -> Result<PageTable, StoreError> {
        do {
            let table = try repository.table(hash, pageBytes: backup.pageBytes)
            let readsPages = sample.load(ordering: .relaxed) > 0
            let count = try repository.verifyPack(hash, pageBytes: backup.pageBytes, readsPages: readsPages)
            sample.wrappingSubtract(count, ordering: .relaxed)
            return .success(table)
        } catch let error as StoreError {
            return .failure(error)
        }
    }

    private mutating func add(_ runs: [PageRun], _ table: PageTable) {
        for run in runs {
            for place in 0..<run.count {
                let (page, slot) = (run.first + place, Int(run.slot + place))
                guard slot < table.count, table.pageNumber(slot) == page else { continue }
                tags[Int(page)] = table.tag(slot)
                places[Int(page)] = UInt64(run.pack) << 32 | UInt64(slot)
                if page == 1 { firstHash = Array(table.hash(slot)) }
            }
        }
    }

    /// Where a page with a tag is; nil for a page that must be stored.
    func place(of page: UInt32, _ tag: PageTag) -> (pack: UInt32, slot: UInt32)? {
        let index = Int(page)
        guard index < places.count, tags[index] == tag, places[index] != Self.unknown else { return nil }
        return (UInt32(places[index] >> 32), UInt32(truncatingIfNeeded: places[index]))
    }
}
