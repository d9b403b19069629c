import CipherStore
import StoreTools

/// `doctor STORE`: reports what is wrong or risky, and what to do.
struct DoctorCommand: Command {
    static let syntax = CommandSyntax(
        name: "doctor",
        summary:
            "report what is wrong or risky about a store, and what to do; exit code 2 when something needs attention",
        operands: [OperandSyntax("STORE", "the store, or the folder of a backup; it may be in use")],
        options: [
            OptionSyntax("--no-key", "check only facts that need no key; nothing is authenticated then"), .json, .quiet,
        ]
            + KeyPolicy.options + SpacePolicy.options + FleetOptions.all + KeyOptions.all,
        examples: [
            "cipherctl doctor app.db --key-file app.key",
            "cipherctl doctor app.db --no-key --json",
            "cipherctl doctor app.db --no-key --max-key-age 365d --max-backup-age 30d",
        ],
        notes: [
            "It checks the library with its published bugs, the filesystem, permissions of the store's files and of "
                + "the key file, both copies of the sidecar, with a key also whether they are the newest, header, "
                + "state, the WAL, and files that interrupted work left. With a key it opens the store read-only, and compares "
                + "its full-text indexes with their texts. Nothing is changed. `cipherctl verify` checks "
                + "every page.",
            "Findings are problems, risks and notes; notes alone give exit code 0. Bugs of the library are derived "
                + "from its version number. Distributions fix bugs without raising the number, so these findings are "
                + "notes.",
        ])

    /// It reports what the library lacks.
    static let needsCryptography = false

    private let path: String
    private let needsKey: Bool
    private let policy: KeyPolicy
    private let space: SpacePolicy
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        needsKey = !arguments.has("--no-key")
        policy = try KeyPolicy(arguments)
        space = try SpacePolicy(arguments)
        if !needsKey, KeyOptions.isGiven(arguments) {
            throw UsageError("A key and --no-key were given.", hint: "Leave one of them out.")
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        var tool = StoreExamination(path, key: needsKey ? ToolKey(arguments) : nil)
        tool.policy = policy
        tool.keyFile = arguments.value("--key-file") ?? arguments.value("--raw-key-file")
        let report = try tool.run(onNotice: Console.note)
        let findings = report.findings + space.findings(path, walBytes: report.status.walBytes)
        let needsAttention = findings.contains(where: \.needsAttention)
        let summary = needsAttention ? "something needs attention" : "nothing needs attention"
        let isAuthenticated = report.status.isAuthenticated
        try console.report(
            json: .object([
                "store": .string(path), "authenticated": .bool(isAuthenticated),
                "needs_attention": .bool(needsAttention), "findings": .array(findings.map(\.json)),
                "store_id": .optional(report.status.storeID) { .string("\($0)") },
                "cipherctl_version": .string(Program.version),
                "sqlcipher_version": .optional(SQLiteLibrary.cipherVersion, JSON.string),
                "sqlite_version": .string(SQLiteLibrary.sqliteVersion),
            ]),
            lines: findings.flatMap(\.lines) + [
                "result   \(summary)\(isAuthenticated ? "" : " (nothing was authenticated)")"
            ])
        return needsAttention ? .needsAttention : .ok
    }
}

extension Finding {
    fileprivate var json: JSON {
        .object([
            "severity": .string(severity.rawValue), "code": .string(name), "what": .string(what),
            "remedy": .optional(completedRemedy, JSON.string),
        ])
    }

    private var completedRemedy: String? { remedy.map { SuggestedCommand.completing($0) } }

    fileprivate var lines: [String] {
        [Help.padded(severity.rawValue, to: 8) + " \(what)"] + (completedRemedy.map { ["         -> \($0)"] } ?? [])
    }
}
