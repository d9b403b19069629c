import CipherStore
import StoreTools

/// `hash STORE` and `hash --plain FILE`: a digest of the content, to compare databases.
struct HashCommand: Command {
    static let syntax = CommandSyntax(
        name: "hash",
        summary: "print a digest of the whole content, to compare databases",
        operands: [OperandSyntax("FILE", "the store, the folder of a backup, or with --plain a plain SQLite database")],
        options: [OptionSyntax("--plain", "FILE is not encrypted; no key is needed"), .json, .quiet] + KeyOptions.all,
        examples: [
            "cipherctl hash app.db --key-file app.key",
            "cipherctl hash --plain plain.db",
        ],
        notes: [
            "Two databases have the same hash exactly when schema, rows, row ids, user_version and application_id are "
                + "the same. Key, page size, encoding and free space do not matter."
        ])

    private let path: String
    private let isPlain: Bool
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        isPlain = arguments.has("--plain")
        let operand = arguments.operands[0]
        path = isPlain ? operand : BackupBundle.database(meantBy: operand)
        if isPlain, KeyOptions.isGiven(arguments) {
            throw UsageError("A plain database has no key.", hint: "Leave out --plain, or the key.")
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        let hash = try hash(console)
        try console.report(
            json: .object(["file": .string(path), "content_hash": .string(hash.hex)]), lines: ["\(hash.hex)  \(path)"])
        return .ok
    }

    private func hash(_ console: Console) throws -> ContentHash {
        if isPlain {
            let source = try PlainSource.open(path)
            defer { try? source.close() }
            return try PlainSource.read(path) {
                try source.read { db in
                    if let note = try PlainSource.tailNote(of: path, db) { console.note(note) }
                    return try ContentHash.of(db)
                }
            }
        }
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let store = try StoreOpening.readOnly(path, key, onNotice: console.note)
        defer { try? store.close() }
        return try store.read { try ContentHash.of($0) }
    }
}
