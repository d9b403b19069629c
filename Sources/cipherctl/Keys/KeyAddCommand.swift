import KeyCustody

/// `key add STORE`: one more key that opens a store.
struct KeyAddCommand: Command {
    static let changesFiles = true
    static let syntax = CommandSyntax(
        name: "key add",
        summary: "let another key open a store as well",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: [.label, .kdf, .json] + KeyOptions.all + KeyOptions.new,
        examples: [
            "cipherctl key add app.db --key-file app.key",
            "cipherctl key add app.db --key-file app.key --new-raw-key-file server.key --label server",
            "cipherctl key add app.db --key-file app.key --new-key-command 'pass show app' --label laptop",
        ],
        notes: [
            "The store is opened with one of its keys; the new one comes from the options that begin with --new-, or is "
                + "asked for twice at the terminal. A raw key file of 32 random bytes makes a key-file slot: "
                + "head -c 32 /dev/urandom > server.key. A store has at most 32 slots.",
            "The new slot is proved by opening before it is written.",
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = arguments.operands[0]
        _ = try NewKey.label(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try KeyAccess(path, arguments, console)
        try access.requireRoom()
        let new = try NewKey(arguments, console)
        try new.requireUnused(in: access)
        let slot = try access.change(bringing: new) { try $0.add(new.slot()) }
        try console.report(
            json: .object(["store": .string(path), "added": SlotReport.json(slot)]),
            lines: ["added \(SlotReport.name(slot))"])
        return .ok
    }
}
