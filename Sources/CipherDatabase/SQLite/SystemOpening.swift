import CSQLCipher
import PageFormat
import StorePlatform
import Synchronization

/// The function by which SQLite opens files.
///
/// SQLite opens by path: a pipe that got the name of a database after the last check would be waited for without end, and
/// an opening waits 45 seconds for a process that has a lease on the file. It overwrites any file with the name `-shm`. So
/// this function opens in its place, and judges the descriptor that SQLite uses: no name can be exchanged in between.
///
/// It holds for every connection of the process, also those of other libraries that use this SQLite.
/// - SeeAlso: <https://www.sqlite.org/c3ref/vfs.html>, `xSetSystemCall`
enum SystemOpening {
    private struct Refused {
        let reason: Reason
        let thread: UInt
        let time: ContinuousClock.Instant
    }

    fileprivate enum Reason: Sendable {
        case system(RegularFile.Refusal)
        /// A file that is no index of a WAL has the name of one.
        case foreignIndex
    }

    private struct State: ~Copyable {
        /// The latest refusals, by path.
        var refused: [String: Refused] = [:]
        /// Open files that are no index. Closing one would drop the locks of this process on a database that got the name.
        var foreign: [FileIdentity: CInt] = [:]
    }

    private static let state = Mutex(State())

    /// Whether SQLite opens files by this function, from the first use of this property on.
    static let isInstalled: Bool = {
        guard let system = sqlite3_vfs_find(nil), system.pointee.iVersion >= 3,
            let setSystemCall = system.pointee.xSetSystemCall
        else { return false }
        let function: @convention(c) (UnsafePointer<CChar>?, CInt, CInt) -> CInt = { SystemOpening.open($0, $1, $2) }
        return setSystemCall(system, "open", unsafeBitCast(function, to: sqlite3_syscall_ptr.self)) == SQLITE_OK
    }()

    // MARK: Opening

    private static func open(_ path: UnsafePointer<CChar>?, _ flags: CInt, _ mode: CInt) -> CInt {
        guard let path else { return -1 }
        let name = String(cString: path)
        if name == randomDevice { return RegularFile.openDevice(path, flags: flags) }
        if let reason = known(name) { return refuse(name, reason) }
        let (number, refusal) = RegularFile.open(path, flags: flags, mode: mode)
        guard number >= 0 else {
            if let refusal { RegularFile.keepingErrorNumber { note(name, .system(refusal)) } }
            return -1
        }
        if name.hasSuffix(indexEnding), !isIndex(number) {
            keep(number)
            return refuse(name, .foreignIndex)
        }
        state.withLock { if !$0.refused.isEmpty { $0.refused[name] = nil } }
        if !companionEndings.contains(where: name.hasSuffix), let identity = RegularFile.identity(of: number) {
            OpenedDatabases.noteOpened(name, identity)
        }
        return number
    }

    private static let companionEndings = ["-wal", "-journal", indexEnding]

    private static let randomDevice = "/dev/urandom"
    private static let indexEnding = "-shm"

    /// The reason to refuse a path without opening it.
    private static func known(_ path: String) -> Reason? {
        // SQLite repeats a refused opening, for reading only.
        if let refused = refused(path), case .system(.lease) = refused.reason,
            ContinuousClock.now - refused.time < DatabaseLimits.repeatedOpening
        {
            return refused.reason
        }
        guard path.hasSuffix(indexEnding), state.withLock({ !$0.foreign.isEmpty }),
            let identity = (try? Files.identity(path)) ?? nil,
            let number = state.withLock({ $0.foreign[identity] })
        else { return nil }
        return isIndex(number) ? nil : .foreignIndex
    }

    private static func refuse(_ path: String, _ reason: Reason) -> CInt {
        note(path, reason)
        if case .system(.lease) = reason {
            RegularFile.setErrorNumber(isLease: true)
        } else {
            RegularFile.setErrorNumber(isLease: false)
        }
        return -1
    }

    private static func note(_ path: String, _ reason: Reason) {
        let refused = Refused(reason: reason, thread: CurrentThread.id, time: .now)
        state.withLock { state in
            if state.refused.count >= DatabaseLimits.notedRefusals { state.refused = [:] }
            state.refused[path] = refused
        }
    }

    private static func keep(_ number: CInt) {
        guard let identity = RegularFile.identity(of: number) else { return }
        state.withLock { state in
            if state.foreign[identity] == nil, state.foreign.count < DatabaseLimits.keptForeignFiles {
                state.foreign[identity] = number
            } else {
                // One more descriptor for each try would use up all that the process may have.
                RegularFile.closeNumber(number)
            }
        }
    }

    /// Whether a file can be the index of a WAL.
    private static func isIndex(_ number: CInt) -> Bool {
        guard let byteCount = RegularFile.byteCount(of: number) else { return true }
        return WALIndexContent(byteCount: byteCount) { offset, count in
            RegularFile.bytes(of: number, at: offset, byteCount: count)
        } nextData: { offset in
            RegularFile.nextData(of: number, from: offset)
        }.isIndex
    }

    // MARK: Reasons

    private static func refused(_ path: String) -> Refused? {
        let thread = CurrentThread.id
        guard let refused = state.withLock({ $0.refused[path] }), refused.thread == thread else { return nil }
        return refused
    }

    /// The reason why this thread could not open a database or a file beside it a moment ago; nil without one.
    static func refusal(besides database: String) -> StoreError? {
        for path in [database] + ["-wal", indexEnding, "-journal"].map({ database + $0 }) {
            guard let refused = refused(path), ContinuousClock.now - refused.time < DatabaseLimits.recentRefusal else {
                continue
            }
            return refused.reason.error(path)
        }
        return nil
    }
}

extension SystemOpening.Reason {
    fileprivate func error(_ path: String) -> StoreError {
        switch self {
        case .system(.kind):
            StoreError(
                .noSuchStore, what: "\"\(path)\" is a device, a pipe or a socket.",
                why: "A store consists of regular files.",
                remedy: "Find out who put it there, and move it away. Nothing was changed.")
        case .system(.lease):
            StoreError(
                .storeInUse, what: "\"\(path)\" could not be opened.",
                why: "Another process has a lease on the file (fcntl F_SETLEASE), and has not ended it.",
                remedy: "Find that process in /proc/locks (LEASE), or try again later.")
        case .foreignIndex: CompanionFiles.foreign(path, "the WAL index")
        }
    }
}
