import CipherStore
import ChangesetSync
import Foundation
import StorePlatform
import StoreTools

/// `sync commit STORE SQL`: runs statements, and makes a commit of the rows that they write.
struct SyncCommitCommand: Command {
    let changesFiles = true
    static let interruptionHint = "Nothing was changed. Run it again."
    static let syntax = CommandSyntax(
        name: "sync commit",
        summary: "run SQL statements, and make one commit of the rows that they change",
        operands: [
            SyncAccess.storeOperand,
            OperandSyntax(
                "SQL", "one statement or several; - or nothing reads them from standard input", isOptional: true),
        ],
        options: [SyncMeta.option] + SyncAccess.options,
        examples: [
            "cipherctl sync commit app.db \"UPDATE player SET score = 0\" --key-file app.key",
            "cipherctl sync commit app.db --meta '{\"by\": \"import\"}' --key-file app.key < import.sql",
        ],
        notes: [
            "All statements are one transaction: they hold no BEGIN and no COMMIT.",
            "Rows of tracked tables that `cipherctl sql --write` or another program writes become a commit too, with the "
                + "next commit, pull, push or run. Keep rows that no other device may have in a table that is not tracked.",
        ])

    private let arguments: ParsedArguments
    private let meta: String
    private let sql: String?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        meta = try SyncMeta.text(arguments)
        let text = arguments.operands.count > 1 ? arguments.operands[1] : "-"
        sql = text == "-" ? nil : text
    }

    func run(_ console: Console) throws -> ExitCode {
        // A signal ends the program here, where it may wait for standard input.
        let text = try sql ?? SQLCommand.standardInput()
        if text.utf8.contains(0) { throw UsageError("The SQL text holds a NUL byte.", hint: "Give plain text.") }
        let access = try SyncAccess(arguments, writes: true, console)
        defer { access.close() }
        let store = access.store
        Interruption.shared.whenSet { store.interrupt() }
        return try commit(text, access, console)
    }

    private func commit(_ text: String, _ access: SyncAccess, _ console: Console) throws -> ExitCode {
        var position = 0
        let made: Changeset?
        do {
            made = try access.repository.commitReturningRecord(meta: meta) { db in
                try db.forEachStatement(in: text, willCompile: { position = $0 }) { statement in
                    try Interruption.shared.check()
                    try statement.execute(arguments: nil)
                }
            }
        } catch let error as DatabaseError {
            try Interruption.shared.check()
            throw StatementFailure(error, at: position, in: text)
        }
        try console.report(
            json: .object(["store": .string(access.path), "commit": .optional(made) { .string($0.uuid) }]),
            lines: [made.map { "commit \($0.uuid)" } ?? "the statements changed no row of a tracked table"])
        return .ok
    }
}

/// The description of a commit.
enum SyncMeta {
    static let option = OptionSyntax("--meta", value: "TEXT", "the description of the commit, as JSON; {} unless given")

    static func text(_ arguments: ParsedArguments) throws(UsageError) -> String {
        guard let text = arguments.value(option.name) else { return "{}" }
        guard (try? JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)) != nil else {
            throw UsageError("--meta is no JSON.", hint: "For example: --meta '{\"by\": \"import\"}'")
        }
        return text
    }
}

/// `sync revert STORE COMMIT`: takes commits back by another one.
struct SyncRevertCommand: SyncCommand {
    static let writes = true
    static let syntax = CommandSyntax(
        name: "sync revert",
        summary: "make a commit that takes another one back; exit code 2 when later changes stay",
        operands: [SyncAccess.storeOperand, SyncCommit.operand],
        options: [
            OptionSyntax("--later", "take back every commit that this one did not know"), SyncMeta.option,
        ] + SyncAccess.options,
        examples: [
            "cipherctl sync revert app.db 3f2a9c --key-file app.key",
            "cipherctl sync revert app.db 81d0aa --later --key-file app.key",
        ],
        notes: [
            "A cell that another commit has written since stays, and so does a row that it has changed: the result lists "
                + "them. The new commit can be taken back too."
        ])

    let arguments: ParsedArguments
    private let meta: String

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        meta = try SyncMeta.text(arguments)
    }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        let commit = try access.repository.changeset(named: arguments.operands[1])
        let result =
            try arguments.has("--later")
            ? access.repository.reset(to: commit.uuid, meta: meta)
            : access.repository.revert(try SyncUnion.refuse(commit).uuid, meta: meta)
        try console.report(
            json: .object([
                "store": .string(access.path), "reverted": .string(commit.uuid),
                "commit": .optional(result.changeset) { .string($0.uuid) },
                "kept": .array(
                    result.kept.map { kept in
                        .object([
                            "table": .string(kept.table), "key": .array(kept.key.map(\.json)),
                            "column": .optional(kept.column, JSON.string),
                        ])
                    }),
            ]),
            lines: [
                result.changeset.map { "commit \($0.uuid) takes it back" } ?? "nothing of it was left to take back"
            ]
                + result.kept.map { kept in
                    "stays: \(kept.table)\(kept.column.map { ".\($0)" } ?? "") \(SyncValues.text(kept.key)), changed later"
                })
        return result.kept.isEmpty ? .ok : .needsAttention
    }
}

/// Unions: several commits that were joined, with one name.
enum SyncUnion {
    static func refuse(_ changeset: Changeset) throws -> Changeset {
        guard changeset.merge_uuid != nil else { return changeset }
        throw CommandFailure(
            .usage, "isUnion", what: "This is the name of a union of several commits.",
            why: "Only one commit can be taken back at a time.",
            hint: "Name one commit. They are listed by: cipherctl sync log")
    }
}
