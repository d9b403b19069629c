import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto

/// The last frame of each page in a WAL: of those that SQLite accepts and, for a salvage, of those behind damage.
struct WALRuns {
    let header: WALHeader
    private(set) var last: [UInt32: UInt32]
    private(set) var databasePages: UInt32
    /// The frames that were read behind damage; nil where none were.
    private(set) var passedDamage: PassedDamage?
    /// The same as `last`, with pages that the last commit does not count.
    private var all: [UInt32: UInt32] = [:]
    /// The frame that ends the last commit.
    private var lastCommit: UInt32
    /// Frames whose page is not authentic.
    private(set) var passed: [UInt32] = []
    /// The last frame of each page whose page is not authentic.
    private var lastPassed: [UInt32: UInt32] = [:]
    /// Frames that are not authentic, and whose page number is not known.
    private var unknown: [UInt32] = []

    /// - Parameter readsPastDamage: Whether the authentic frames count that SQLite ignores because the WAL is damaged before
    ///   them, or in its header.
    /// - Returns: Nil when the WAL contains nothing that counts.
    /// - Throws: `SystemError`, `PageFormatError`.
    init?(_ log: RawFile, _ key: PageKey, at moment: CommitPosition?, readsPastDamage: Bool) throws {
        let scan = try WALScan.scan(log, at: moment)
        let hasOwnHeader = scan?.header.pageBytes == key.settings.pageBytes
        guard hasOwnHeader || readsPastDamage,
            let header = try hasOwnHeader ? scan?.header : WALFrames.headerOfRun(log, key)
        else { return nil }
        self.header = header
        let accepted = hasOwnHeader ? scan : nil
        last = accepted?.lastFrames ?? [:]
        databasePages = accepted?.databasePages ?? 0
        lastCommit = accepted?.committedFrames ?? 0
        for (index, page) in (accepted?.pageNumbers ?? []).enumerated() { all[page] = UInt32(index + 1) }
        if readsPastDamage {
            let frames = try WALFrames(header, log, bytes: log.byteCount, key)
            let run = try WALRun(frames, after: accepted?.committedFrames ?? 0, accepted?.checksum)
            if !hasOwnHeader || run.isDamaged { try take(run, commitsBefore: commits(of: accepted, frames)) }
        }
        if databasePages == 0 { return nil }
    }

    private func offset(of frame: UInt32) -> Int { header.frameOffset(frame) }

    /// Whether a damaged frame of a page came after a frame.
    func isPassed(_ page: UInt32, after frame: UInt32) -> Bool { lastPassed[page].map { $0 > frame } ?? false }

    /// Whether a damaged frame of which the page is not known lies between two others.
    func isUnknown(between first: UInt32, _ last: UInt32) -> Bool { unknown.contains { first < $0 && $0 < last } }

    private func commits(of scan: WALScan?, _ frames: WALFrames) throws -> Int {
        guard let scan, scan.committedFrames > 0 else { return 0 }
        return try (1...scan.committedFrames).count { try frames.frameHeader($0)?.endsTransaction == true }
    }

    /// The highest page of the WAL. No key protects the numbers of frames: one that the file and as many pages as the WAL
    /// has frames cannot reach counts only if its page is authentic.
    ///
    /// - Parameter inFile: Whole pages of the file.
    func highestPage(_ log: RawFile?, _ codec: inout PageCodec, inFile: UInt32) throws -> UInt32 {
        let reach = UInt64(inFile) + UInt64(lastCommit)
        for (page, frame) in last.sorted(by: { $0.key > $1.key }) {
            if UInt64(page) <= reach { return page }
            let bytes = try log?.bytes(at: header.pageOffset(ofFrame: frame), count: header.pageBytes) ?? []
            if bytes.count == header.pageBytes, bytes.withUnsafeBytes({ codec.verify($0, number: page) }) {
                return page
            }
        }
        return 0
    }

    // MARK: Behind damage

    /// Takes the authentic frames behind the damage, commit by commit, in their order: of each page the last one counts.
    private mutating func take(_ run: WALRun, commitsBefore: Int) throws {
        var damage = PassedDamage(commitsBefore: commitsBefore)
        for commit in run.commits {
            for frame in commit.frames {
                if frame.isAuthentic {
                    (last[frame.page], all[frame.page]) = (frame.number, frame.number)
                } else {
                    passed.append(frame.number)
                    if frame.isOfRun { lastPassed[frame.page] = frame.number } else { unknown.append(frame.number) }
                }
            }
            lastCommit = commit.frames.last?.number ?? lastCommit
            if let pages = commit.databasePages { databasePages = pages }
            if commit.isWhole { damage.wholeCommits += 1 } else { damage.partialCommits += 1 }
        }
        damage.lostFrames = passed
        passedDamage = damage
        // The commit that counted the pages may be the damaged one: no page is lost for that.
        if run.commits.last?.databasePages == nil { databasePages = max(databasePages, all.keys.max() ?? 0) }
        last = last.filter { $0.key <= databasePages }
    }

    // MARK: Page counts

    /// Corrects the count of the last commit where it is not that of page 1, or where page 1 is lost and the commit has
    /// pages after it. No key protects either count: of two that differ, the one counts to which the pages reach that
    /// are there.
    ///
    /// - Parameter inFile: Whole pages of the file.
    /// - Returns: The fault; nil where nothing was corrected.
    mutating func settleCount(
        _ log: RawFile?, _ file: RawFile?, _ codec: inout PageCodec, inFile: UInt32
    ) throws -> WALContent.LengthFault? {
        guard let log else { return nil }
        let byHeader = try pagesByHeader(log, file, &codec)
        let written = try highestPageOfLastCommit(log, &codec)
        guard byHeader.map({ $0 != databasePages }) ?? (written > databasePages) else { return nil }
        let fault = WALContent.LengthFault.counts(log: Int(databasePages), header: Int(byHeader ?? written))
        let counts = [databasePages, byHeader ?? written, written]
        let most = counts.max() ?? databasePages
        let there = max(min(inFile, most), all.keys.filter { $0 <= most }.max() ?? 0)
        databasePages = counts.filter { $0 >= there }.min() ?? there
        last = all.filter { $0.key <= databasePages }
        return fault
    }

    /// The pages that page 1 counts; nil where its newest image is not authentic.
    private func pagesByHeader(_ log: RawFile, _ file: RawFile?, _ codec: inout PageCodec) throws -> UInt32? {
        let frame = last[1]
        guard !isPassed(1, after: frame ?? 0) else { return nil }
        let page =
            try frame.map { try log.bytes(at: header.pageOffset(ofFrame: $0), count: header.pageBytes) }
            ?? file?.bytes(at: 0, count: header.pageBytes) ?? []
        guard page.count == header.pageBytes, page.withUnsafeBytes({ codec.verify($0, number: 1) }) else { return nil }
        return DatabaseHeader(page)?.pageCount
    }

    /// The highest page of the last commit that is authentic: SQLite writes no page with a commit that removes it.
    private func highestPageOfLastCommit(_ log: RawFile, _ codec: inout PageCodec) throws -> UInt32 {
        var (highest, frame) = (UInt32(0), lastCommit)
        while frame > 0 {
            let bytes = try log.bytes(at: offset(of: frame), count: header.frameStrideBytes)
            guard let found = bytes.withUnsafeBytes({ WALFrameHeader($0) }),
                frame == lastCommit || !found.endsTransaction
            else { break }
            let page = bytes[WALFrameHeader.headerBytes...]
            if found.pageNumber > highest, page.withUnsafeBytes({ codec.verify($0, number: found.pageNumber) }) {
                highest = found.pageNumber
            }
            frame -= 1
        }
        return highest
    }
}

/// The commits that a salvage read behind the damage of a WAL.
public struct PassedDamage: Hashable, Sendable {
    /// Commits before the damage, which SQLite reads.
    public let commitsBefore: Int
    /// Commits behind the damage of which each page is authentic.
    public internal(set) var wholeCommits = 0
    /// Commits of which a frame is damaged. Their authentic pages were taken.
    public internal(set) var partialCommits = 0
    /// The frames without an authentic page; frames count from 1.
    public internal(set) var lostFrames: [UInt32] = []

    init(commitsBefore: Int) { self.commitsBefore = commitsBefore }

    /// Whether the pages of every commit were read.
    public var isComplete: Bool { partialCommits == 0 && lostFrames.isEmpty }
}

/// The frames of a WAL after the last commit that SQLite accepts, up to the end of their run.
private struct WALRun {
    struct Frame {
        let number: UInt32
        let page: UInt32
        let isAuthentic: Bool
        /// Whether its salts say that it is of this run.
        let isOfRun: Bool
        /// Whether bytes of it were changed that no code covers.
        let isChanged: Bool
        /// Whether its checksum continues that of the frame before it.
        let follows: Bool
        /// Pages of the database after the commit that it ends; nil in a frame that ends none.
        let databasePages: UInt32?

        var isDamaged: Bool { !isAuthentic || isChanged }
    }

    struct Commit {
        var frames: [Frame]
        var databasePages: UInt32? { frames.last?.databasePages }
        var isWhole: Bool { frames.allSatisfy(\.isAuthentic) && databasePages != nil }
    }

    private let frames: [Frame]
    /// Whether one of them was damaged after it was written. A kill, a rollback or a reset leaves no such frame.
    var isDamaged: Bool { frames.contains(where: \.isDamaged) }

    /// - Parameters:
    ///   - committed: The last frame that SQLite accepts.
    ///   - checksum: That of the frame; nil where the header of the WAL is damaged.
    init(_ source: WALFrames, after committed: UInt32, _ checksum: WALChecksum?) throws {
        var frames: [Frame] = []
        var before = checksum
        var number = committed + 1
        while let found = try source.frameHeader(number) {
            let follows =
                try found.salts == source.header.salts && before.map { try source.follows(number, $0) } ?? true
            let original = try follows ? nil : before.flatMap { try source.original(of: number, found, after: $0) }
            let header = original ?? found
            // A changed checksum before this frame looks like a change of its page number.
            let isUnmoved = try source.isAuthentic(number, pageNumber: found.pageNumber)
            let page = isUnmoved ? found.pageNumber : header.pageNumber
            let isAuthentic = try isUnmoved || source.isAuthentic(number, pageNumber: page)
            // An authentic frame of another run ends this one: what follows is older.
            if isAuthentic, !source.isOfRun(found) { break }
            let isIntact = try !isAuthentic || page != 1 || source.isIntact(number, header) == true
            frames.append(
                Frame(
                    number: number, page: page, isAuthentic: isAuthentic,
                    isOfRun: source.isOfRun(found), isChanged: original != nil || !isIntact, follows: follows,
                    databasePages: source.isOfRun(found) && header.endsTransaction ? header.databasePages : nil))
            before = header.checksum
            number = try source.next(after: number)
        }
        // Bytes at the end that are no frames of this run.
        while let last = frames.last, !last.isAuthentic, !last.isOfRun { frames.removeLast() }
        self.frames = Self.withoutLeftover(frames)
    }

    /// The frames without the rest of a commit that never happened: its process was killed, and a later commit has
    /// overwritten its beginning. Such frames are intact, and follow others than those before them.
    private static func withoutLeftover(_ frames: [Frame]) -> [Frame] {
        for index in frames.indices {
            let hasIntactBefore = index == 0 || (frames[index - 1].follows && !frames[index - 1].isDamaged)
            guard hasIntactBefore, !frames[index].follows, !frames[index].isDamaged else { continue }
            if index + 1 == frames.count || frames[index + 1].follows { return Array(frames[..<index]) }
        }
        return frames
    }

    /// The commits, in their order. Frames at the end without a commit are none, unless the last of them is damaged and may
    /// have been its end.
    var commits: [Commit] {
        var commits: [Commit] = []
        var waiting: [Frame] = []
        for frame in frames {
            waiting.append(frame)
            guard frame.databasePages != nil else { continue }
            commits.append(Commit(frames: waiting))
            waiting = []
        }
        if waiting.last?.isDamaged == true { commits.append(Commit(frames: waiting)) }
        return commits
    }
}
