import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// Looks at a store without opening it: its files, its sidecar, its place and who uses it.
///
/// ```swift
/// let status = try StoreStatus("app.db").run()
/// print(status.state, status.walBytes, status.attention)
/// ```
///
/// No SQLite connection is made, so a damaged store can be looked at, and nothing is locked or changed.
public struct StoreStatus: StoreTool {
    /// The database file of the store.
    public let path: String
    /// How old keys and backups may become before they need attention.
    public var policy = KeyPolicy()
    private let key: ToolKey?

    /// - Parameters:
    ///   - path: The database file of the store.
    ///   - source: Where the key comes from; asked once. Without one nothing is authenticated: the report is what the sidecar
    ///     claims.
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
        if let key {
            try report.authenticate(StoreOpening.sidecar(path, key.unlocked(), onNotice: run.notice))
        }
        if let finding = report.age?.finding, finding.needsAttention { report.take([finding]) }
        report.take(report.keyHealth.findings(policy))
        report.notices = run.notices
        return report
    }

    /// What a sidecar says of its store.
    public enum State: String, Hashable, Sendable, CaseIterable {
        /// The store is being created or adopted, or that was interrupted.
        case creating
        /// The store is complete.
        case ready
        /// A rotation runs, or was interrupted.
        case rotating
        /// A rotation puts the copy in the database's place, or was interrupted while it did so.
        case switching
    }

    /// What was seen.
    public struct Report: Sendable {
        /// How a copy of the sidecar looks.
        package struct Copy: Sendable {
            package let copy: SidecarCopy
            /// `ok`, `missing`, `damaged`, `unreadable`, `stale`, `forged`, `other_key`, `differing`.
            package var state: String
        }

        /// The path that was looked at.
        public let path: String
        /// The backup to which the database belongs; nil for a store.
        package let backup: BackupBundle?
        /// As the key authenticates it, or without a key as it claims to be; nil when no copy can be read.
        package var sidecar: Sidecar?
        /// Whether a key has proved what the sidecar says.
        public private(set) var isAuthenticated = false
        /// Whether that is the newest one; nil without a key.
        package private(set) var age: SidecarAge?
        package private(set) var copies: [Copy]
        /// Bytes of the database file.
        public let fileBytes: Int
        /// Bytes of the WAL.
        public let walBytes: Int
        /// Committed frames in the WAL.
        public let walFrames: Int
        /// Frames of the WAL that are in the database file already; nil when no process has the WAL open.
        public let copiedFrames: Int?
        /// The processes that read at an old moment, and so keep the WAL from being reset.
        public let logReaders: [LogReader]
        /// Pages at the last commit, as header and WAL say.
        public let pages: Int
        let verdict: HeaderVerdict
        /// Whether a process has the store open as a shared store; nil when that cannot be asked.
        let isLeased: Bool?
        /// Who has the store open, reads or writes; nil when that cannot be asked.
        public let holders: StoreHolders?
        package let filesystem: FilesystemKind
        /// What somebody should look at, each as a sentence without its full stop.
        public private(set) var attention: [String] = []
        /// How old the keys are, and whether the key log holds.
        package private(set) var keyHealth: KeyHealth
        /// What opening the store reported, where that had to be tried.
        public internal(set) var notices: [String] = []
    }
}

extension StoreStatus.Report {
    /// What the sidecar says of the store; nil when no copy of it can be read.
    public var state: StoreStatus.State? { sidecar.flatMap { StoreStatus.State(rawValue: $0.state.rawValue) } }
    /// The store's name for life.
    public var storeID: StoreID? { sidecar?.storeID }
    /// The version of the sidecar; each change makes it one more.
    public var generation: UInt64? { sidecar?.generation }
    /// How the pages are encrypted.
    public var settings: CipherSettings? { sidecar?.settings }
    /// How the store keeps its key, and what opens it.
    public var keys: StoreKeys.Summary? { sidecar.map { StoreKeys.Summary($0) } }
    /// Whether the store remembers a newer sidecar than the one that is there; nil when that is not known.
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
    /// When the data key was made; nil when neither sidecar nor key log says.
    public var dataKeyCreated: Date? { keyHealth.keyCreated.map { Date(timeIntervalSince1970: TimeInterval($0)) } }
    /// When a backup was last verified; nil when the key log names none.
    public var backupVerified: Date? { keyHealth.backupVerified.map { Date(timeIntervalSince1970: TimeInterval($0)) } }
    /// Whether nobody has changed the key log, as far as its chain shows.
    public var isKeyLogSound: Bool { keyHealth.logProblems.isEmpty }
    /// Whether any process has the store open: by its lease, by SQLite's locks, or as the system shows open files; nil when
    /// none of these says yes and one cannot be asked.
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
        let log = try Self.log(path)
        walBytes = log.bytes
        walFrames = Int(log.scan?.committedFrames ?? 0)
        let pagesByLog = Int(log.scan?.databasePages ?? 0)
        pages = pagesByLog > 0 ? pagesByLog : Int(DatabaseHeader(first)?.pageCount ?? 0)
        let index = Self.index(path)
        copiedFrames = index.map { Int($0.checkpointedFrames) }
        logReaders = index.map { LogReader.blocking($0, sharedMemory: StorePaths(path).sharedMemory) } ?? []
        isLeased = try? Self.isLeased(path)
        holders = try? StoreHolders(of: path)
        keyHealth = KeyHealth(StorePaths(path), sidecar)
        findRisks()
    }

    private static func log(_ path: String) throws -> (bytes: Int, scan: WALScan?) {
        let wal = StorePaths(path).wal
        guard let bytes = try Files.byteCount(wal), bytes > 0 else { return (0, nil) }
        let file = try RawFile(wal: wal)
        return (bytes, try WALScan.scan(fileBytes: bytes) { try file.read(at: $0, into: $1) })
    }

    /// The head of the wal-index, which is right only while a process has it open.
    private static func index(_ path: String) -> WALIndex? {
        let file = StorePaths(path).sharedMemory
        guard let locks = try? SystemLocks.posixLocks(on: file), !locks.isEmpty,
            let bytes = try? RawFile(file).bytes(at: 0, count: WALIndex.headerBytes)
        else { return nil }
        return bytes.withUnsafeBytes { WALIndex($0) }
    }

    private static func isLeased(_ path: String) throws -> Bool {
        let lock = StorePaths(path).lock
        // Asking must not make the file.
        guard Files.exists(lock) else { return false }
        return try LockFile(path: lock, likeFile: path, allowsReadOnly: true).isHeld(.lease)
    }

    // MARK: With the key

    /// Takes in what the key proves.
    mutating func authenticate(_ choice: SidecarChoice) throws {
        sidecar = choice.sidecar
        isAuthenticated = true
        keyHealth = KeyHealth(StorePaths(path), sidecar)
        age = SidecarAge(path, choice)
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

    private func firstPageIsAuthentic(_ choice: SidecarChoice) throws -> Bool {
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

    /// Takes in what else somebody should look at.
    mutating func take(_ findings: [Finding]) { attention += findings.map(\.text) }

    /// Whether a process holds the lock under which keys change and rotations run; nil when that cannot be asked.
    package static func isChangingKeys(_ path: String) -> Bool? {
        let lock = StorePaths(path).lock
        guard Files.exists(lock) else { return false }
        return try? LockFile(path: lock, likeFile: path, allowsReadOnly: true).isHeld(.admin)
    }

    // MARK: Risks

    /// What a store says of itself that was direct before it got slots, and still has that key.
    package static let formerPassphrase =
        "the former passphrase still opens the database until the data key is rotated: the store was direct before it "
        + "got key slots"

    /// What a sidecar in state `creating` means beside the file that is there.
    private var interruptedCreation: String {
        switch verdict {
        case .opaque:
            "an adoption was interrupted before it changed the file, which opens as before: `cipherctl adopt` begins it anew"
        case .plaintextHeader where pages > 1:
            "an adoption was interrupted after it had converted the file; all rows are there: `cipherctl adopt`, or the next "
                + "opening for writing, completes it"
        default: "the creation of the store was interrupted: `cipherctl create` completes it"
        }
    }

    /// Holders that keep others from working.
    private static func attention(to holders: StoreHolders) -> [String] {
        // A process is reported once, however many connections it has.
        var told: Set<Int32> = []
        return holders.compactMap { holder in
            guard holder.state == .stopped || holder.state == .zombie, told.insert(holder.process).inserted else {
                return nil
            }
            let uses = holders.filter { $0.process == holder.process }.flatMap(\.uses)
            if uses.contains(.turn) || uses.contains(.writeLock) {
                return "\(holder) holds the write lock: nobody can write until it goes on or ends"
            }
            if uses.contains(.readLock) {
                return "\(holder) is reading: the write-ahead log cannot shrink until it goes on or ends"
            }
            return nil
        }
    }

    private mutating func findRisks() {
        for copy in copies where copy.state != "ok" && !(backup != nil && copy.copy == .backup) {
            attention.append(
                "the \(copy.copy.rawValue) copy of the sidecar is \(copy.state.replacing("_", with: " ")): an opening for "
                    + "writing mends what can be mended")
        }
        switch sidecar?.state {
        case .creating: attention.append(interruptedCreation)
        case .rotating, .switching:
            // One that runs is reported by `rotate --status`, and needs nobody.
            if Self.isChangingKeys(path) != true {
                attention.append("a rotation was cut: the next opening for writing finishes or undoes it")
            }
        case .ready, nil: break
        }
        switch verdict {
        case .plaintextHeader: break
        case .damagedHeader(let damage): attention.append("byte \(damage.offset) of the header is wrong")
        case .plainSQLite: attention.append("the file is plain SQLite: it is not encrypted")
        case .empty: attention.append("the file has no bytes")
        case .opaque where sidecar?.state == .creating: break
        case .tooShort, .opaque: attention.append("the file has not the header of a store")
        }
        if let holders { attention += Self.attention(to: holders) }
        if !filesystem.isSafeForSharedWAL { attention.append("stores are not safe on \(filesystem.name)") }
        if walBytes > Limits.largeWALBytes {
            let readers = logReaders.map(\.description).joined(separator: ", ")
            attention.append(
                "the write-ahead log has \(walBytes >> 20) MiB"
                    + (readers.isEmpty ? "" : ", and cannot shrink while these read at an old moment: \(readers)"))
        }
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
    /// The copy that a note is about, and the state it gives it.
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
