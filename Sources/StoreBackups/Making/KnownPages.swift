import CipherStore
import PageFormat
import StorePlatform

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
        var sample = BackupLimits.sampledBytes
        for (pack, runs) in Dictionary(grouping: map.runs, by: \.pack).shuffled() where pack != PageRun.zeros {
            try check()
            do {
                let hash = packs[Int(pack)]
                let table = try repository.table(hash, pageBytes: backup.pageBytes)
                sample -= try repository.verifyPack(hash, pageBytes: backup.pageBytes, readsPages: sample > 0)
                add(runs, table)
            } catch let error as StoreError {
                notices.append("\(error.what) \(error.why) Its pages are stored again.")
            }
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
