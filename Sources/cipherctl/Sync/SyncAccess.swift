import CipherStore
import ChangesetSync
import StorePlatform
import StoreTools

/// A command of `sync` on a store that has a repository: it opens the store, runs, and closes it.
protocol SyncCommand: Command {
    /// Whether the command writes to the store.
    static var writes: Bool { get }
    var arguments: ParsedArguments { get }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode
}

extension SyncCommand {
    static var writes: Bool { false }
    var changesFiles: Bool { Self.writes }

    func run(_ console: Console) throws -> ExitCode {
        let access = try SyncAccess(arguments, writes: changesFiles || endsBySignal, console)
        defer { access.close() }
        return try Interruption.explaining { try run(access, console) }
    }
}

/// A store with its repository.
struct SyncAccess {
    let path: String
    let store: SharedStore
    let repository: ChangesetRepository

    static let storeOperand = OperandSyntax("STORE", "the store; it may be in use")
    static let readOperand = OperandSyntax("STORE", "the store, or the folder of a backup; it may be in use")
    static let options = [OptionSyntax.json, .quiet] + KeyOptions.all
    /// The options of commands that may take long.
    static let longOptions = [OptionSyntax.json, .quiet, .progress] + KeyOptions.all

    init(path: String, store: SharedStore, repository: ChangesetRepository) {
        (self.path, self.store, self.repository) = (path, store, repository)
    }

    /// Opens the store of a command, and the repository that it has.
    ///
    /// - Throws: `EngineError` `.noRepository`; the errors of opening a store.
    init(_ arguments: ParsedArguments, writes: Bool, _ console: Console) throws {
        path = BackupBundle.database(meantBy: arguments.operands[0])
        store = try writes ? Self.writable(arguments, console) : Self.readOnly(arguments, console)
        do {
            repository = try ChangesetRepository(existing: store)
        } catch {
            try? store.close()
            throw error
        }
    }

    func close() { try? store.close() }

    // MARK: Stores

    /// Opens the store for writing. A signal ends the work at its next check, and waits for other processes.
    static func writable(_ arguments: ParsedArguments, _ console: Console) throws -> SharedStore {
        let path = BackupBundle.database(meantBy: arguments.operands[0])
        try BackupBundle.refuse(writing: path)
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        Interruption.beginWork()
        return try StoreOpening.writable(
            path, key, isCancelled: { Interruption.shared.isSet }, onNotice: console.note)
    }

    private static func readOnly(_ arguments: ParsedArguments, _ console: Console) throws -> SharedStore {
        let path = BackupBundle.database(meantBy: arguments.operands[0])
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        return try StoreOpening.readOnly(path, key, onNotice: console.note)
    }
}

/// The tables that a store tracks.
enum SyncTables {
    static let options = [
        OptionSyntax("--table", value: "T", "track this table", isRepeatable: true),
        OptionSyntax("--all-tables", "track all tables of the program"),
    ]

    /// Whether a command names tables.
    static func areNamed(by arguments: ParsedArguments) -> Bool {
        arguments.has("--all-tables") || !arguments.values("--table").isEmpty
    }

    /// - Throws: ``UsageError`` unless there is exactly one of `--table` and `--all-tables`.
    static func check(_ arguments: ParsedArguments) throws(UsageError) {
        guard arguments.has("--all-tables") == arguments.values("--table").isEmpty else {
            throw UsageError(
                arguments.has("--all-tables") ? "--table and --all-tables were given." : "No table was given.",
                hint: "Give --table for each table, or --all-tables.")
        }
    }

    /// The tables that the options name. Warns of keys that devices number alike.
    static func named(by arguments: ParsedArguments, in store: SharedStore, _ console: Console) throws -> [String] {
        let named = arguments.values("--table")
        let all = try store.read(ProgramTables.init)
        if named.isEmpty { for table in all.leftOut { console.warn(table.reason) } }
        let tables = named.isEmpty ? all.names : named
        try requireTables(tables, in: store)
        try requireKeys(of: tables, in: store)
        try requireParts(of: tables, in: store)
        try warnOfNumbers(tables, in: store, console)
        return tables
    }

    /// Refuses names that no table has, all at once.
    private static func requireTables(_ tables: [String], in store: SharedStore) throws {
        let unknown = try store.read { db in
            try tables.filter { table in
                try Int.fetchOne(
                    db, sql: "SELECT count(*) FROM pragma_table_list(?) WHERE schema = 'main'", arguments: [table]) == 0
            }
        }
        guard !unknown.isEmpty else { return }
        let names = unknown.map { "\"\($0)\"" }.joined(separator: ", ")
        throw CommandFailure(
            .usage, "noSuchTable",
            what: "The store has no \(unknown.count == 1 ? "table" : "tables") \(names).",
            why: "Only a table that is there can be tracked.",
            hint: "Create the table first, or give another name: `cipherctl sql` lists the tables.")
    }

    /// Refuses tables without a primary key, all at once.
    private static func requireKeys(of tables: [String], in store: SharedStore) throws {
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
            why: "A row without a primary key has no identity on other devices.",
            hint: "Declare primary keys, or name the tables to track: --table T for each of them.")
    }

    /// Refuses tables that need a function or collation of the program, also by the tables to which they refer: a join
    /// could not write them here.
    private static func requireParts(of tables: [String], in store: SharedStore) throws {
        try store.read { db in
            for table in tables {
                let parents = try String.fetchAll(
                    db, sql: "SELECT DISTINCT \"table\" FROM pragma_foreign_key_list(?, 'main')", arguments: [table])
                let names = try Set(([table] + parents).flatMap { try MissingParts(of: db, table: $0).names })
                guard !names.isEmpty else { continue }
                throw CommandFailure(
                    .unsupported, "missingPart", what: "The table \"\(table)\" cannot be tracked.",
                    why:
                        "It, or a table to which it refers, needs \(names.sorted().joined(separator: ", ")), which only the "
                        + "program has.",
                    hint: "Let the program begin or join the repository, or name other tables: --table T")
            }
        }
    }

    /// Two devices that are offline give different rows the same number.
    private static func warnOfNumbers(_ tables: [String], in store: SharedStore, _ console: Console) throws {
        let numbered = try store.read { db in
            try tables.filter { table in
                let types = try String.fetchAll(
                    db, sql: "SELECT upper(type) FROM pragma_table_info(?, 'main') WHERE pk > 0", arguments: [table])
                return types == ["INTEGER"]
            }
        }
        guard !numbered.isEmpty else { return }
        console.warn(
            "SQLite numbers the rows of \(numbered.joined(separator: ", ")). Two devices that are offline give new rows "
                + "the same number, and sync makes one row of them. Better keys are UUIDs, or a range of numbers for each "
                + "device")
    }
}

/// Commits as arguments name them.
enum SyncCommit {
    static let operand = OperandSyntax("COMMIT", "HEAD, or the first digits of a commit's name, four at least")
    static let limit = OptionSyntax("--limit", value: "N", "the most that are listed; 100 unless given")

    static func limit(_ arguments: ParsedArguments) throws(UsageError) -> Int {
        let text = arguments.value(limit.name) ?? "100"
        guard let limit = Int(text), (1...1_000_000).contains(limit) else {
            throw UsageError("--limit is not a number from 1 to 1000000.", hint: "For example: --limit 20")
        }
        return limit
    }
}
