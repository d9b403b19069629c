import KeyCustody

/// `key test STORE`: whether a key opens a store, and by which slot.
struct KeyTestCommand: Command {
    static let syntax = CommandSyntax(
        name: "key test",
        summary: "tell which slot a key opens; exit code 77 when none",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: [.json] + KeyOptions.all,
        examples: [
            "cipherctl key test app.db",
            "cipherctl key test app.db --key-file recovery.txt --json",
        ],
        notes: [
            "The key is tried on the sidecar, which must be the newest that the store remembers; nothing is locked, and of the "
                + "database only that is read. A recovery key is typed or read from a file like a passphrase, in capital or "
                + "small letters, with hyphens or without."
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = arguments.operands[0]
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try KeyAccess(path, arguments, console)
        try access.age.requireNewest(console)
        let line = access.openedBy.map { "the key opens \(SlotReport.name($0))" } ?? "the key opens the store (direct)"
        try console.report(
            json: .object([
                "store": .string(path), "opens": .bool(true), "scheme": .string(access.sidecar.scheme.name),
                "slot": .optional(access.openedBy, SlotReport.json),
            ]),
            lines: [line])
        return .ok
    }
}
