import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// Reads the status of a store without opening it: its files, its sidecar, its location and its users.
///
/// ```swift
/// let status = try StoreStatus("app.db").run()
/// print(status.state, status.walBytes, status.attention)
/// ```
///
/// No SQLite connection is made, so a damaged store can be examined, and nothing is locked or changed. Only where a key
/// is given and the store records its changes it is opened for reading, for ``Report/history``.
public struct StoreStatus: StoreTool {
    /// The database file of the store.
    public let path: String
    /// How old keys and backups may become before they need attention.
    public var policy = KeyPolicy()
    private let key: ToolKey?

    /// - Parameters:
    ///   - path: The database file of the store.
    ///   - source: The source of the key; it is read once. Without one nothing is authenticated: the report is what the
    ///     sidecar claims.
    public init(_ path: String, unlockedBy source: KeySource? = nil) {
        self.init(path, key: source.map { ToolKey($0) })
    }

    package init(_ path: String, key: ToolKey?) {
        self.path = path
        self.key = key
    }

    /// - Throws: `StoreError` `noSuchStore`; with a key `wrongKey`, `sidecarDamaged` or `sidecarForged`; `SystemError`.
    public func perform(_ run: ToolRun) throws -> Report {
        var report = try Report(path)
        // Parts of two stores exist then: no key fits both.
        if let key, report.interruptedRestoration == nil {
            try report.authenticate(StoreOpening.sidecar(path, key.unlocked(), onNotice: run.notice))
        }
        report.take(report.historyReading.findings.filter(\.needsAttention))
        if let finding = report.age?.finding, finding.needsAttention { report.take([finding]) }
        report.take(report.keyHealth.findings(policy))
        report.notices = run.notices
        return report
    }

    /// The state of a store according to its sidecar.
    public enum State: String, Hashable, Sendable, CaseIterable {
        /// The store is being created or adopted, or that was interrupted.
        case creating
        /// The store is complete.
        case ready
        /// A rotation runs, or was interrupted.
        case rotating
        /// A rotation is putting the copy in the database's place, or was interrupted while it did so.
        case switching
    }

    /// The status that was read.
    public struct Report: Sendable {
        /// The state of one copy of the sidecar.
        package struct Copy: Sendable {
            package let copy: SidecarCopy
            /// `ok`, `missing`, `damaged`, `unreadable`, `stale`, `forged`, `other_key`, `differing`.
            package var state: String
        }

        /// The path that was examined.
        public let path: String
        /// The backup to which the database belongs; nil for a store.
        package let backup: BackupBundle?
        /// The sidecar, authenticated by the key, or without a key as it claims to be; nil when no copy can be read.
        package var sidecar: Sidecar?
        /// Whether a key has authenticated the sidecar.
        public private(set) var isAuthenticated = false
        /// Whether that sidecar is the newest one; nil without a key.
        package private(set) var age: SidecarAge?
        package private(set) var copies: [Copy]
        /// Size of the database file in bytes.
        public let fileBytes: Int
        /// Size of the WAL in bytes.
        public let walBytes: Int
        /// Committed frames in the WAL.
        public let walFrames: Int
        /// Frames of the WAL that are already in the database file; nil when no process has the WAL open.
        public let copiedFrames: Int?
        /// The processes that read an old snapshot, and so prevent a reset of the WAL.
        public let logReaders: [WALReader]
        /// Pages at the last commit, according to header and WAL.
        public let pages: Int
        /// Pages that header and WAL count and that are in neither; 0 for a whole database.
        let missingPages: Int
        /// Whether the WAL has bytes but no valid frame.
        package let isWALWithoutContent: Bool
        /// The folder with the files of the store that an interrupted restoration was replacing; nil where there is none.
        let interruptedRestoration: String?
        let verdict: HeaderVerdict
        /// Whether a process has the store open as a shared store; nil when that cannot be determined.
        let isLeased: Bool?
        /// The processes that have the store open, read or write; nil when that cannot be determined.
        public let holders: StoreHolders?
        package let filesystem: FilesystemKind
        /// The findings that need attention, each as a sentence without its full stop.
        public private(set) var attention: [String] = []
        /// What the store records of its changes; `none` without a key.
        package private(set) var historyReading = StoreHistoryStatus.Reading.none
        /// The age of the keys, and whether the key log is intact.
        package private(set) var keyHealth: KeyHealth
        /// The notices of opening the store, where that was necessary.
        public internal(set) var notices: [String] = []
    }
}

extension StoreStatus.Report {
    /// The state according to the sidecar; nil when no copy of it can be read.
    public var state: StoreStatus.State? { sidecar.flatMap { StoreStatus.State(rawValue: $0.state.rawValue) } }
    /// The store's identifier, which never changes.
    public var storeID: StoreID? { sidecar?.storeID }
    /// The version of the sidecar; each change increments it.
    public var generation: UInt64? { sidecar?.generation }
    /// How the pages are encrypted.
    public var settings: CipherSettings? { sidecar?.settings }
    /// How the store keeps its key, and which slots open it.
    public var keys: StoreKeys.Summary? { sidecar.map { StoreKeys.Summary($0) } }
    /// What the store records of its changes; nil where it records none, without a key, and where it cannot be read.
    public var history: StoreHistoryStatus? {
        if case .found(let history) = historyReading { history } else { nil }
    }
    /// Whether the store records a newer sidecar than the present one; nil when that is not known.
    public var isRolledBack: Bool? {
        switch age {
        case .newest: false
        case .rolledBack: true
        case .unknown, nil: nil
        }
    }
    /// The type of the filesystem, such as `ext4`.
    public var filesystemName: String { filesystem.name }
    /// Whether locks and shared memory work between processes on the filesystem.
    public var isFilesystemSafe: Bool { filesystem.isSafeForSharedWAL }
    /// When the data key was made; nil when neither sidecar nor key log contains it.
    public var dataKeyCreated: Date? { keyHealth.keyCreated.map { Date(timeIntervalSince1970: TimeInterval($0)) } }
    /// When a backup was last verified; nil when the key log contains none.
    public var backupVerified: Date? { keyHealth.backupVerified.map { Date(timeIntervalSince1970: TimeInterval($0)) } }
    /// Whether the key log is unchanged, as far as its chain proves.
    public var isKeyLogSound: Bool { keyHealth.logProblems.isEmpty }
    /// Whether any process has the store open, according to its lease, SQLite's locks, or the open files that the
    /// system shows; nil when none of these shows one and one of them cannot be read.
    public var isInUse: Bool? {
        if isLeased == true || holders?.isEmpty == false { return true }
        return isLeased == nil || holders == nil ? nil : false
    }
}

extension StoreStatus.Report {
    /// - Throws: `StoreError` `noSuchStore`, `SystemError`.
    init(_ path: String) throws {
        self.path = path
        backup = BackupBundle(holding: path)
        guard let kind = try Files.kind(path), kind == .regular else { throw StoreOpening.noSuchStore(path) }
        fileBytes = try Files.byteCount(path) ?? 0
        filesystem = try FilesystemKind.of(path)
        let read = SidecarFiles(databasePath: StorePaths(path).database).read()
        copies = SidecarCopy.allCases.map { Copy(copy: $0, state: read[$0].stateName) }
        sidecar = read.newestClaimed
        let first = try RawFile(path).bytes(at: 0, count: 4096)
        verdict = DatabaseHeader.examine(first, fileBytes: fileBytes, settings: sidecar?.settings)
        let log = try WALContent(of: path)
        walBytes = log.bytes
        walFrames = Int(log.scan?.committedFrames ?? 0)
        pages = log.pages(first)
        isWALWithoutContent = try log.hasNothing && WALContent.recheck { try WALContent(of: path).hasNothing }
        let pageBytes = sidecar?.settings.pageBytes
        missingPages = try WALContent.missingPages(of: path, pageBytes: pageBytes)
        interruptedRestoration = (try? InterruptedRestoration.folder(of: StorePaths(path))) ?? nil
        let index = Self.index(path)
        copiedFrames = index.map { Int($0.checkpointedFrames) }
        logReaders = index.map { WALReader.blocking($0, sharedMemory: StorePaths(path).sharedMemory) } ?? []
        isLeased = try? Self.isLeased(path)
        holders = try? StoreHolders(of: path)
        keyHealth = KeyHealth(StorePaths(path), sidecar)
        findRisks()
    }

    /// The header of the wal-index, which is valid only while a process has it open.
    private static func index(_ path: String) -> WALIndex? {
        let file = StorePaths(path).sharedMemory
        guard let locks = try? SystemLocks.posixLocks(on: file), !locks.isEmpty,
            let bytes = try? RawFile(file).bytes(at: 0, count: WALIndex.headerBytes)
        else { return nil }
        return bytes.withUnsafeBytes { WALIndex($0) }
    }

    private static func isLeased(_ path: String) throws -> Bool {
        let lock = StorePaths(path).lock
        // The check must not create the file.
        guard Files.exists(lock) else { return false }
        return try LockFile(path: lock, likeFile: path, allowsReadOnly: true).isHeld(.lease)
    }

    // MARK: With the key

    /// Adds the facts that the key proves.
    mutating func authenticate(_ choice: AuthenticatedSidecar) throws {
        sidecar = choice.sidecar
        isAuthenticated = true
        keyHealth = KeyHealth(StorePaths(path), sidecar)
        age = SidecarAge(path, choice)
        historyReading = choice.sidecar.state == .ready ? StoreHistoryStatus.read(path, choice) : .none
        for note in choice.notes {
            guard let (copy, state) = note.subject else { continue }
            for index in copies.indices where copies[index].copy == copy { copies[index].state = state }
        }
        attention = []
        findRisks()
        if try !firstPageIsAuthentic(choice) {
            attention.append("page 1 does not fit the key of the sidecar: run `cipherctl verify`")
        }
    }

    private func firstPageIsAuthentic(_ choice: AuthenticatedSidecar) throws -> Bool {
        var codec = try choice.dataKey.withSecret { secret in
            try PageCodec(dataKey: secret, salt: choice.sidecar.salt.bytes, settings: choice.sidecar.settings)
        }
        let file = try RawFile(path)
        let deadline = ContinuousClock.now + Limits.recheckTime
        // A checkpoint may be writing the page.
        while true {
            let page = try file.bytes(at: 0, count: choice.sidecar.settings.pageBytes)
            if page.withUnsafeBytes({ codec.verify($0, number: 1) }) { return true }
            if ContinuousClock.now >= deadline { return false }
            Pause.sleep(for: Limits.recheckPause)
        }
    }

    /// Adds findings that need attention.
    mutating func take(_ findings: [Finding]) { attention += findings.map(\.text) }

    /// Whether a process holds the lock for changes of keys and rotations; nil when that cannot be determined.
    package static func isChangingKeys(_ path: String) -> Bool? {
        let lock = StorePaths(path).lock
        guard Files.exists(lock) else { return false }
        return try? LockFile(path: lock, likeFile: path, allowsReadOnly: true).isHeld(.admin)
    }

    // MARK: Risks

    /// The notice for a store that was direct before it got keyslots, and still has that key.
    package static let formerPassphrase =
        "the former passphrase still opens the database until the data key is rotated: the store was direct before it "
        + "got keyslots"

    /// The meaning of a sidecar in state `creating` beside the present file.
    private var interruptedCreation: String {
        switch verdict {
        case .opaque:
            "an adoption was interrupted before it changed the file, which opens as before: `cipherctl adopt` starts "
                + "it again"
        case .plaintextHeader where pages > 1:
            "an adoption was interrupted after it had converted the file; all rows are there: `cipherctl adopt`, or the next "
                + "opening for writing, completes it"
        default: "the creation of the store was interrupted: `cipherctl create` completes it"
        }
    }

    /// Holders that block others.
    private static func attention(to holders: StoreHolders) -> [String] {
        // A process is reported once, however many connections it has.
        var told: Set<Int32> = []
        return holders.compactMap { holder in
            guard holder.state == .stopped || holder.state == .zombie, told.insert(holder.process).inserted else {
                return nil
            }
            let uses = holders.filter { $0.process == holder.process }.flatMap(\.uses)
            if uses.contains(.writeSlot) || uses.contains(.writeLock) {
                return "\(holder) holds the write lock: nobody can write until it resumes or ends"
            }
            if uses.contains(.readLock) {
                return "\(holder) is reading: the WAL cannot shrink until it resumes or ends"
            }
            return nil
        }
    }

    private mutating func findRisks() {
        if let interruptedRestoration {
            // The files belong to two stores and do not describe either.
            attention = [Finding.restorationInterrupted(path, interruptedRestoration).text]
            return
        }
        let isRepairable = copies.contains { $0.state == "ok" }
        for copy in copies where copy.state != "ok" && !(backup != nil && copy.copy == .backup) {
            attention.append(
                "the \(copy.copy.rawValue) copy of the sidecar is \(copy.state.replacing("_", with: " "))"
                    + (isRepairable ? ": the next opening for writing restores it from the other one" : ""))
        }
        switch sidecar?.state {
        case .creating: attention.append(interruptedCreation)
        case .rotating, .switching:
            // One that runs is reported by `rotate --status`, and needs no attention.
            if Self.isChangingKeys(path) != true {
                attention.append("a rotation was interrupted: the next opening for writing completes or undoes it")
            }
        case .ready, nil: break
        }
        switch verdict {
        case .plaintextHeader: break
        case .damagedHeader(let damage): attention.append("byte \(damage.offset) of the header is wrong")
        case .plainSQLite: attention.append("the file is plain SQLite: it is not encrypted")
        case .empty: attention.append("the file has no bytes")
        case .opaque where sidecar?.state == .creating: break
        case .tooShort, .opaque: attention.append("the file does not have the header of a store")
        }
        if missingPages > 0 {
            let count = missingPages == 1 ? "1 page is" : "\(missingPages) pages are"
            attention.append(
                "\(count) missing from the end of the file, and not in the WAL: restore the store from a backup"
            )
        }
        if let holders { attention += Self.attention(to: holders) }
        if !filesystem.isSafeForSharedWAL { attention.append("stores are not safe on \(filesystem.name)") }
        if walBytes > Limits.largeWALBytes {
            let readers = logReaders.map(\.description).joined(separator: ", ")
            attention.append(
                "the WAL has \(walBytes >> 20) MiB"
                    + (readers.isEmpty ? "" : ", and cannot shrink while these read an old snapshot: \(readers)"))
        }
    }
}

/// The valid content of the WAL of a store.
package struct WALContent {
    package let bytes: Int
    /// nil where SQLite would not use the header of the WAL.
    fileprivate let scan: WALScan?

    /// - Throws: `SystemError`.
    package init(of path: String) throws {
        let wal = StorePaths(path).wal
        guard let bytes = try Files.byteCount(wal), bytes > 0 else {
            (self.bytes, scan) = (0, nil)
            return
        }
        let file = try RawFile(wal: wal)
        self.bytes = bytes
        scan = try WALScan.scan(fileBytes: bytes) { try file.read(at: $0, into: $1) }
    }

    /// The pages in its committed frames; nil where it has no commit.
    package var committedPages: Set<UInt32>? {
        guard let scan, scan.committedFrames > 0 else { return nil }
        return Set(scan.lastFrames.keys)
    }

    /// Whether it has bytes, but no frame that was ever written completely.
    fileprivate var hasNothing: Bool { bytes > 0 && (scan.map { $0.committedFrames + $0.uncommittedFrames } ?? 0) == 0 }

    /// Pages at the last commit.
    ///
    /// - Parameter first: The first bytes of the database file.
    fileprivate func pages(_ first: [UInt8]) -> Int {
        let inLog = Int(scan?.databasePages ?? 0)
        return inLog > 0 ? inLog : Int(DatabaseHeader(first)?.pageCount ?? 0)
    }

    /// Pages of the database that are neither in the file nor in the WAL.
    ///
    /// - Parameter pageBytes: nil where it is unknown: then no page is reported missing.
    fileprivate static func missingPages(of path: String, pageBytes: Int?) throws -> Int {
        guard let pageBytes else { return 0 }
        var missing = 0
        _ = try recheck {
            let first = try RawFile(path).bytes(at: 0, count: DatabaseHeader.headerBytes)
            let log = try WALContent(of: path)
            let length = DatabaseLength(fileBytes: try Files.byteCount(path) ?? 0, pageBytes: pageBytes)
            let verdict = length.verdict(pages: log.pages(first)) { log.committedPages }
            // An empty file is reported as such.
            if case .pagesMissing(let count) = verdict, length.fileBytes > 0 { missing = count } else { missing = 0 }
            return missing > 0
        }
        return missing
    }

    /// Whether a condition holds repeatedly, because a writer or a checkpoint may be active.
    package static func recheck(_ isSo: () throws -> Bool) throws -> Bool {
        let deadline = ContinuousClock.now + Limits.recheckTime
        while try isSo() {
            if ContinuousClock.now >= deadline { return true }
            Pause.sleep(for: Limits.recheckPause)
        }
        return false
    }

    /// The text for a WAL that has bytes but no valid frame.
    fileprivate static let note =
        "the WAL has bytes none of which counts: commits that were in it and not yet in the database file are "
        + "lost if it was damaged"
}

extension StoreStatus.Report {
    /// The text for a WAL that has bytes but no valid frame; nil for any other.
    package var walNote: String? { isWALWithoutContent ? WALContent.note : nil }

    /// The same of the store at a path.
    static func walNote(_ path: String) throws -> String? {
        try WALContent.recheck { try WALContent(of: path).hasNothing } ? WALContent.note : nil
    }
}

extension Finding {
    /// A store of which no file may be removed, and that no process opens.
    static func restorationInterrupted(_ path: String, _ folder: String) -> Finding {
        Finding(
            .problem, "restorationInterrupted",
            "a restoration was interrupted: nobody can open the store until it is run again",
            remedy: "run it again, which resumes it: `cipherctl restore DIR \(path) --replace`. Remove neither "
                + "\"\(Files.name(of: path))-restoring\" nor \"\(Files.name(of: folder))\", which holds the files of the "
                + "former store")
    }
}

extension SidecarContent {
    fileprivate var stateName: String {
        switch self {
        case .absent: "missing"
        case .unreadable: "unreadable"
        case .damaged: "damaged"
        case .present: "ok"
        }
    }
}

extension SidecarNote {
    /// The copy that a note is about, and the state that the note means.
    fileprivate var subject: (SidecarCopy, String)? {
        switch self {
        case .restoredFromBackup: nil
        case .missing(let copy): (copy, "missing")
        case .unreadable(let copy, _): (copy, "unreadable")
        case .damaged(let copy, _): (copy, "damaged")
        case .forged(let copy): (copy, "forged")
        case .otherKey(let copy): (copy, "other_key")
        case .stale(let copy, _, _): (copy, "stale")
        case .differing: (.backup, "differing")
        }
    }
}
