/// Consecutive pages of a database that are in consecutive slots of one pack.
struct PageRun: Hashable, Sendable {
    /// Stands for the page of SQLite's lock bytes, which is all zeros and in no pack.
    static let zeros = UInt32.max

    /// The number of the first page.
    let first: UInt32
    let count: UInt32
    /// The place of the pack in the record's list.
    let pack: UInt32
    /// The slot of the first page.
    let slot: UInt32

    /// The number of the last page.
    var last: UInt32 { first + count - 1 }

    /// Whether another run continues this one.
    func isContinued(by next: PageRun) -> Bool {
        pack == next.pack && first + count == next.first && (pack == Self.zeros || slot + count == next.slot)
    }
}

/// The place of each page of a database, in the order of pages.
struct PageMap: Sendable {
    enum Offset {
        static let magic = 0
        static let version = 5
        static let count = 8
        static let runs = 12
    }

    static let magic = "CSMAP"
    static let version: UInt16 = 1
    static let runBytes = 16

    let runs: [PageRun]

    /// Joins runs that continue each other.
    ///
    /// - Parameter runs: In any order; each page in one of them.
    init(joining runs: [PageRun]) {
        var joined: [PageRun] = []
        for run in runs.sorted(by: { $0.first < $1.first }) {
            if let last = joined.last, last.isContinued(by: run) {
                joined[joined.count - 1] = PageRun(
                    first: last.first, count: last.count + run.count, pack: last.pack, slot: last.slot)
            } else {
                joined.append(run)
            }
        }
        self.runs = joined
    }

    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Offset.runs + runs.count * Self.runBytes)
        bytes.begin(Self.magic, version: Self.version)
        bytes.append(0)
        bytes.append(number: UInt32(runs.count))
        for run in runs {
            bytes.append(number: run.first)
            bytes.append(number: run.count)
            bytes.append(number: run.pack)
            bytes.append(number: run.slot)
        }
        return bytes
    }

    /// Reads a map, which must contain each page of a database once.
    init(_ bytes: [UInt8], of record: BackupRecord) throws(FormatFault) {
        var reader = FieldReader(bytes)
        try reader.begin(Self.magic, version: Self.version)
        guard try reader.take(1) == [0] else { throw FormatFault("has a byte that must be zero") }
        let count = Int(try reader.number(UInt32.self))
        guard bytes.count == Offset.runs + count * Self.runBytes else { throw FormatFault("has another length") }
        let capacity = UInt32(PageTable.capacity(pageBytes: record.facts.pageBytes))
        var runs: [PageRun] = []
        runs.reserveCapacity(count)
        var next: UInt32 = 1
        for _ in 0..<count {
            let run = PageRun(
                first: try reader.number(), count: try reader.number(), pack: try reader.number(),
                slot: try reader.number())
            guard run.first == next, run.count > 0, run.count - 1 <= record.facts.pages - run.first,
                run.pack == PageRun.zeros
                    ? run.count == 1
                    : run.pack < record.packs.count && run.slot < capacity && run.count <= capacity - run.slot
            else { throw FormatFault("has an impossible run of pages at page \(next)") }
            runs.append(run)
            if run.last == record.facts.pages { break }
            next = run.last + 1
        }
        guard runs.count == count, runs.last?.last == record.facts.pages else {
            throw FormatFault("does not contain every page")
        }
        self.runs = runs
    }

    /// The index of the run that contains a page.
    func index(of page: UInt32) -> Int {
        var (low, high) = (0, runs.count - 1)
        while low < high {
            let middle = (low + high + 1) / 2
            if runs[middle].first <= page { low = middle } else { high = middle - 1 }
        }
        return low
    }
}
