import ChangesetSync
import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import StoreTools
import Synchronization

/// The common parts of the commands of `sync`: options, the store with its repository, and the remote.
struct SyncAccess {
    let path: String
    let store: SharedStore
    let repository: ChangesetRepository

    static let storeOperand = OperandSyntax("STORE", "the store; it may be in use")
    static let options = [OptionSyntax.json, .quiet] + KeyOptions.all
    /// Of the commands that may take long.
    static let longOptions = [OptionSyntax.json, .quiet, .progress] + KeyOptions.all
    static let remoteOption = OptionSyntax(
        "--remote", value: "R", "the remote, dir:PATH or postgresql://...; not needed again, as the store keeps it")
    static let tableOptions = [
        OptionSyntax("--table", value: "T", "this table", isRepeatable: true),
        OptionSyntax("--all-tables", "all tables of the program"),
    ]

    // MARK: Opening

    /// Opens the store for a command that writes. A signal ends waits for other processes.
    static func writable(_ arguments: ParsedArguments, _ console: Console) throws -> SyncAccess {
        let path = BackupBundle.database(meantBy: arguments.operands[0])
        try BackupBundle.refuse(writing: path)
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        Interruption.beginWork()
        let store = try StoreOpening.writable(
            path, key, isCancelled: { Interruption.shared.isSet }, onNotice: console.note)
        return SyncAccess(path: path, store: store, repository: ChangesetRepository(store))
    }

    /// Opens the store, or that of a backup, for a command that only reads.
    static func readOnly(_ arguments: ParsedArguments, _ console: Console) throws -> SyncAccess {
        let path = BackupBundle.database(meantBy: arguments.operands[0])
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let store = try StoreOpening.readOnly(path, key, onNotice: console.note)
        return SyncAccess(path: path, store: store, repository: ChangesetRepository(store))
    }

    func close() { try? store.close() }

    // MARK: Tables

    /// The tables that the options name.
    ///
    /// - Throws: ``UsageError`` unless there is exactly one of `--table` and `--all-tables`.
    static func checkTables(_ arguments: ParsedArguments) throws(UsageError) {
        guard arguments.has("--all-tables") == arguments.values("--table").isEmpty else {
            throw UsageError(
                arguments.has("--all-tables") ? "--table and --all-tables were given." : "No table was given.",
                hint: "Give --table for each table, or --all-tables.")
        }
    }

    func tables(_ arguments: ParsedArguments, _ console: Console) throws -> [String] {
        let named = arguments.values("--table")
        if !named.isEmpty { return named }
        let all = try store.read(ProgramTables.init)
        for table in all.leftOut { console.warn(table.reason) }
        try requireKeys(of: all.names)
        return all.names
    }

    /// Refuses tables without a primary key, all at once.
    private func requireKeys(of tables: [String]) throws {
        let keyless = try store.read { db in
            try tables.filter { table in
                try Int.fetchOne(
                    db, sql: "SELECT count(*) FROM pragma_table_info(?, 'main') WHERE pk > 0", arguments: [table]) == 0
            }
        }
        guard !keyless.isEmpty else { return }
        let names = keyless.map { "\"\($0)\"" }.joined(separator: ", ")
        throw CommandFailure(
            .usage, "noPrimaryKey",
            what: keyless.count == 1
                ? "The table \(names) cannot be tracked." : "\(keyless.count) tables cannot be tracked: \(names).",
            why: "Without a primary key a row has no identity on other devices.",
            hint: "Declare primary keys, or name the tables to track: --table T for each of them.")
    }

    /// Tables whose keys SQLite numbers: two devices that are offline give different rows the same number.
    func numberedTables(_ tables: [String]) throws -> [String] {
        try store.read { db in
            try tables.filter { table in
                let types = try String.fetchAll(
                    db, sql: "SELECT upper(type) FROM pragma_table_info(?, 'main') WHERE pk > 0", arguments: [table])
                return types == ["INTEGER"]
            }
        }
    }

    func warnOfNumbers(_ tables: [String], _ console: Console) throws {
        let numbered = try numberedTables(tables)
        guard !numbered.isEmpty else { return }
        console.warn(
            "the rows of \(numbered.joined(separator: ", ")) are numbered by SQLite: two devices that are offline give "
                + "new rows the same number, and a merge takes them for one row. Better: UUIDs as keys, or a range of "
                + "numbers for each device")
    }

    // MARK: Remotes

    /// The value of `--remote`; nil without it.
    ///
    /// - Throws: ``UsageError``, which repeats nothing of it.
    static func remote(_ arguments: ParsedArguments) throws -> RemoteAddress? {
        guard let text = arguments.value(remoteOption.name) else { return nil }
        do {
            return try RemoteAddress(text)
        } catch let error as RemoteAddressError {
            throw UsageError(error.reason, hint: error.remedy)
        }
    }

    /// Opens the store and runs an exchange with its remote. The progress has ended, and the store is closed, afterwards.
    ///
    /// - Parameter given: What `--remote` says.
    static func exchange<Value: Sendable>(
        _ arguments: ParsedArguments, with given: RemoteAddress?, _ console: Console,
        _ work: @escaping @Sendable (SyncManager, SyncProgress) async throws -> Value
    ) throws -> Value {
        warnOfPassword(given, console)
        let access = try writable(arguments, console)
        defer { access.close() }
        let progress = SyncProgress()
        defer { progress.end() }
        return try AsyncWork.wait {
            try await access.forgettingUnused(given) { try await work(access.manager(given, progress), progress) }
        }
    }

    /// Runs an exchange. If it fails, a remote that was new to the store, and with which nothing was exchanged, is forgotten
    /// again: it would be the remote of every later command.
    func forgettingUnused<Value>(
        _ given: RemoteAddress?, _ exchange: () async throws -> Value
    ) async throws -> Value {
        let known = try repository.knownRemotes().map(\.name)
        do {
            return try await exchange()
        } catch {
            if let given, let name = try? name(of: given), !known.contains(name) {
                // The error of the exchange is the one that matters.
                _ = try? repository.forgetRemote(named: name, onlyIfUnused: true)
            }
            throw error
        }
    }

    static func warnOfPassword(_ address: RemoteAddress?, _ console: Console) {
        guard let address, address.hasPassword else { return }
        console.warn(
            "a password in --remote is visible to every user of the machine in the list of processes, and stays in the "
                + "history of the shell; better: a file named by PGPASSFILE, or ~/.pgpass")
    }

    /// The remote that is meant: that of `--remote`, or the only one that the store has.
    func address(_ given: RemoteAddress?) throws -> RemoteAddress {
        if let given { return given }
        let known = try repository.knownRemotes()
        guard known.count < 2 else {
            throw UsageError(
                "The store has several remotes: \(known.map(\.name).joined(separator: ", ")).",
                hint: "Name one with --remote.")
        }
        guard let first = known.first else {
            throw UsageError(
                "The store has no remote yet.", hint: "Give --remote dir:PATH or --remote postgresql://...")
        }
        guard let address = first.address else {
            throw UsageError(
                "The store does not have the address of \(first.name).",
                hint: "Give it once with --remote: with user and sslmode, without a password.")
        }
        return address
    }

    /// The name by which the store keeps the remote that is meant.
    func name(of given: RemoteAddress?) throws -> String {
        if let given { return try RemoteOpening.remote(given, try repository.id).name }
        let known = try repository.knownRemotes()
        if known.count == 1 { return known[0].name }
        // Says which ones there are.
        return try RemoteOpening.remote(try address(nil), try repository.id).name
    }

    /// The manager of the remote that is meant. A new remote is set up, and its address is kept in the store; so is one that
    /// is named again, as its tables may be gone.
    func manager(_ given: RemoteAddress?, _ progress: SyncProgress) async throws -> SyncManager {
        let address = try address(given)
        let remote = try RemoteOpening.remote(address, try repository.id)
        let isKnown = try repository.knownRemotes().contains { $0.name == remote.name }
        let manager = SyncManager(repository, remote: MeteredRemote(remote, progress))
        if !isKnown || given != nil { try await RemoteOpening.setUp(remote, at: address) }
        if !isKnown {
            // One that cannot be read, or has another repository, is not kept.
            _ = try await remote.list(after: RemoteCursor(), limit: 1)
            try await manager.setup()
        }
        if given != nil { try repository.remember(address, of: remote.name) }
        return manager
    }
}

/// Makes remotes of addresses.
enum RemoteOpening {
    static func remote(_ address: RemoteAddress, _ repository: RepositoryID) throws -> any SyncRemote {
        switch address.kind {
        case .directory(let path): return DirectoryRemote(path: path, repository: repository)
        case .postgreSQL: return try ServerRemote.make(address, repository)
        }
    }

    /// Prepares a remote that is new to the store; one that does not answer is not taken.
    static func setUp(_ remote: any SyncRemote, at address: RemoteAddress) async throws {
        switch address.kind {
        case .directory: try requireFolder(address)
        case .postgreSQL: try await ServerRemote.setUp(remote)
        }
    }

    /// Refuses a folder that is not there.
    static func requireFolder(_ address: RemoteAddress?) throws {
        guard case .directory(let path) = address?.kind else { return }
        let kind = try Files.kind(path)
        if kind == .directory { return }
        guard kind == nil else {
            throw CommandFailure(
                .usage, "notFolder", what: "\"\(path)\" is no folder.",
                why: "It is a file, a device, a pipe or a socket.", hint: "Give the name of a folder.")
        }
        throw CommandFailure(
            .noSuchStore, "noDirectory", what: "There is no folder \"\(path)\".",
            why: "A remote is not created by itself: it could be a share that is not mounted.",
            hint: "Mount it, or make it with mkdir, and run the command again.")
    }
}

/// Runs asynchronous work from a command.
enum AsyncWork {
    private final class Outcome<Success: Sendable>: Sendable {
        private let result = Mutex<Result<Success, any Error>?>(nil)

        func set(_ new: Result<Success, any Error>) { result.withLock { $0 = new } }

        func get() throws -> Success {
            guard let result = result.withLock({ $0 }) else {
                preconditionFailure("The work of a command has ended without an outcome.")
            }
            return try result.get()
        }
    }

    /// Waits for the work; a signal cancels it. To be called once in a run of the program.
    static func wait<Success: Sendable>(_ work: @escaping @Sendable () async throws -> Success) throws -> Success {
        let (outcome, done) = (Outcome<Success>(), DispatchSemaphore(value: 0))
        let task = Task {
            do {
                outcome.set(.success(try await work()))
            } catch {
                outcome.set(.failure(error))
            }
            done.signal()
        }
        Interruption.shared.whenSet { task.cancel() }
        done.wait()
        return try explaining { try outcome.get() }
    }

    /// - Throws: ``CommandFailure`` with exit code 130 in place of `CancellationError`.
    static func explaining<Success>(_ work: () throws -> Success) throws -> Success {
        do {
            return try work()
        } catch is CancellationError {
            throw CommandFailure(
                .interrupted, "interrupted", what: "The command was interrupted.", why: "A signal asked it to end.",
                hint: "Run it again: it goes on where it was.")
        }
    }
}
