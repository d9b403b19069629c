import CipherStore
import KeyCustody
import StorePlatform

/// `doctor STORE`: what is wrong or risky, and what to do.
struct DoctorCommand: Command {
    static let syntax = CommandSyntax(
        name: "doctor",
        summary:
            "tell what is wrong or risky about a store, and what to do; exit code 2 when something needs attention",
        operands: [OperandSyntax("STORE", "the store; it may be in use, and is not opened")],
        options: [OptionSyntax("--no-key", "look at what needs no key; nothing is authenticated then"), .json]
            + KeyPolicy.options + KeyOptions.all,
        examples: [
            "cipherctl doctor app.db --key-file app.key",
            "cipherctl doctor app.db --no-key --json",
            "cipherctl doctor app.db --no-key --max-key-age 365d --max-backup-age 30d",
        ],
        notes: [
            "Looked at are the library with its published bugs, the filesystem, permissions of the store's files and of the "
                + "key file, both copies of the sidecar, with a key also whether they are the newest, header, state, the "
                + "write-ahead log, and files that were left behind. Nothing is changed. `cipherctl verify` looks at every page.",
            "Findings are problems, risks and notes; notes alone give exit code 0. Bugs of the library are told by its "
                + "version, and distributions mend versions without raising them: so they are notes.",
        ])

    private let path: String
    private let needsKey: Bool
    private let policy: KeyPolicy
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = arguments.operands[0]
        needsKey = !arguments.has("--no-key")
        policy = try KeyPolicy(arguments)
        if !needsKey, KeyOptions.all.contains(where: { arguments.value($0.name) != nil }) {
            throw UsageError("A key and --no-key were given.", hint: "Leave one of them out.")
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        var inspection = try StoreInspection(path)
        let paths = StorePaths(path)
        var findings: [Finding] = []
        if needsKey {
            let source = try KeyOptions.source(arguments)
            findings += keyFindings(source, paths)
            // A key file that is refused, or a key that fits nothing, is a finding, and the rest is looked at all the same.
            do {
                try inspection.authenticate(SidecarUnlocking.choose(path, UnlockedKey(source, console), console))
            } catch let error as StoreError {
                if !findings.contains(where: { $0.severity == .problem }) {
                    findings.append(
                        Finding(.problem, error.code.name, "\(error.what) \(error.why)", remedy: error.remedy))
                }
            }
        }
        if let finding = inspection.age?.finding { findings.append(finding) }
        let health = KeyHealth(paths, inspection.sidecar)
        findings += health.findings(policy)
        findings += health.logNotes.map { Finding(.note, "keyLogBehind", $0, remedy: "see: cipherctl key log") }
        findings += StoreCheckup(paths: paths, inspection: inspection).findings()
        try report(findings, inspection, console)
        return findings.contains(where: \.needsAttention) ? .needsAttention : .ok
    }

    private func keyFindings(_ source: KeySource, _ paths: StorePaths) -> [Finding] {
        var findings: [Finding] = []
        for option in ["--key-file", "--raw-key-file"] {
            guard let file = arguments.value(option) else { continue }
            findings += FilePermissions.keyFileFindings(file, store: paths)
        }
        if let warning = source.warning { findings.append(Finding(.risk, "keySource", warning)) }
        return findings
    }

    private func report(_ findings: [Finding], _ inspection: StoreInspection, _ console: Console) throws {
        let needsAttention = findings.contains(where: \.needsAttention)
        let summary = needsAttention ? "something needs attention" : "nothing needs attention"
        try console.report(
            json: .object([
                "store": .string(path), "authenticated": .bool(inspection.isAuthenticated),
                "needs_attention": .bool(needsAttention), "findings": .array(findings.map(\.json)),
                "cipherctl_version": .string(Program.version),
                "sqlcipher_version": .optional(SQLiteLibrary.cipherVersion, JSON.string),
                "sqlite_version": .string(SQLiteLibrary.sqliteVersion),
            ]),
            lines: findings.flatMap(\.lines) + [
                "result   \(summary)\(inspection.isAuthenticated ? "" : " (nothing was authenticated)")"
            ])
    }
}
