import CipherStore
import KeyCustody
import StorePlatform
import StoreTools

/// `status STORE`: prints the state of a store.
struct StatusCommand: Command {
    static let syntax = CommandSyntax(
        name: "status",
        summary: "show the state of a store; exit code 2 when something needs attention",
        operands: [
            OperandSyntax(
                "STORE",
                "the store, or the folder of a backup; it may be in use, and is not opened. --openmetrics takes several",
                isRepeated: true)
        ],
        options: [
            OptionSyntax("--no-key", "show only facts that need no key; nothing is authenticated then"),
            OptionSyntax("--openmetrics", "print figures for a monitoring system, in the OpenMetrics format"), .json,
            .quiet,
            OptionSyntax(
                "--textfile", value: "FILE",
                "with --fleet --openmetrics: write the figures into FILE in one step, with mode 0644 if it is new"),
        ] + KeyPolicy.options + SpacePolicy.options + FleetOptions.all + KeyOptions.all,
        examples: [
            "cipherctl status app.db --key-file app.key",
            "cipherctl status app.db --no-key --json",
            "cipherctl status app.db mail.db --no-key --openmetrics",
            "cipherctl status app.db --no-key --max-key-age 365d --max-backup-age 30d",
            "cipherctl status --fleet",
            "cipherctl status --fleet --openmetrics --textfile /var/lib/node/cipherstore.prom",
        ],
        notes: [
            "Ages come from the sidecar and the key log. If a bound is given, an unknown age needs "
                + "attention too.",
            "Nothing is changed: a missing copy of the sidecar is reported, and the next opening for writing repairs "
                + "it.",
            "With --openmetrics the exit code is 0 whatever the figures say: cipherstore_up is 0 for a store that cannot "
                + "be read or that the key does not open, and cipherstore_attention counts the findings.",
        ])

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
        if arguments.value("--textfile") != nil {
            throw UsageError("--textfile is given without --fleet.", hint: "Without --fleet, use the shell: > FILE.")
        }
        if arguments.operands.count > 1, !arguments.has("--openmetrics") {
            throw UsageError(
                "Several stores were given.", hint: "Give one store, or add --openmetrics, which takes several.")
        }
        if arguments.has("--openmetrics") && arguments.has("--json") {
            throw UsageError("--openmetrics and --json were given.", hint: "Leave one of them out.")
        }
        if !needsKey, KeyOptions.isGiven(arguments) {
            throw UsageError("A key and --no-key were given.", hint: "Leave one of them out.")
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        if arguments.has("--openmetrics") { return try printMetrics(console) }
        let report = try examine(path, needsKey ? ToolKey(arguments) : nil)
        try console.report(json: json(report), lines: lines(report))
        return attention(report).isEmpty ? .ok : .needsAttention
    }

    private func examine(_ path: String, _ key: ToolKey?) throws -> StoreStatus.Report {
        var tool = StoreStatus(path, key: key)
        tool.policy = policy
        return try tool.run(onNotice: Console.note)
    }

    /// Prints the figures of all stores. A collector takes every exit code but 0 for a failure, and drops the figures of
    /// the other stores: what is wrong is a figure.
    private func printMetrics(_ console: Console) throws -> ExitCode {
        // Read once: a descriptor, a command or a person gives it once.
        let key = try needsKey ? UnlockedKey(KeyOptions.source(arguments), console) : nil
        let tool = key.map { key in ToolKey(source: { key.source }, read: { _ in key }) }
        var metrics = OpenMetrics()
        var read: Set<String> = []
        // A collector refuses a series that stands there twice.
        for path in arguments.operands.map(BackupBundle.database) where read.insert(path).inserted {
            let found = Result { try examine(path, tool) }
            metrics.addReading(of: path, succeeded: (try? found.get()) != nil)
            switch found {
            case .success(let report): metrics.add(report, attention: attention(report).count)
            case .failure(let error): FleetReport.tell(error, of: path, isJSON: false)
            }
        }
        for line in metrics.text { try console.output.line(line) }
        return .ok
    }

    /// Of the library's bugs only the one that concerns how other programs write; `doctor` reports all.
    private func notes(_ found: StoreStatus.Report) -> [String] {
        let origin = found.sidecar?.slotted?.dataKey.origin == .direct ? [StoreStatus.Report.formerPassphrase] : []
        let age = found.age?.finding.map { $0.needsAttention ? [] : [$0.text] } ?? []
        return [found.rotationNote, found.walLoss.flatMap { $0.needsAttention ? nil : $0.note }]
            .compactMap(\.self)
            + origin + age + libraryNotes
    }

    private var libraryNotes: [String] {
        KnownBug.affecting(sqlite: SQLiteLibrary.sqliteVersion, sqlCipher: nil).filter { $0.name == "WAL-reset" }.map {
            "SQLite \(SQLiteLibrary.sqliteVersion) has the \($0.name) bug (fixed in \($0.fixedIn)): \($0.what)"
        }
    }

    private func json(_ found: StoreStatus.Report) -> JSON {
        .object(members(found) + found.keyHealth.members)
    }

    private func members(_ found: StoreStatus.Report) -> [JSON.Member] {
        let settings = found.sidecar?.settings
        return JSON.members([
            "store": .string(path), "authenticated": .bool(found.isAuthenticated),
            "state": .optional(found.sidecar) { .string($0.state.rawValue) },
            "scheme": .optional(found.sidecar) { .string($0.scheme.name) },
            "store_id": .optional(found.sidecar) { .string("\($0.storeID)") },
            "slots": .optional(found.sidecar?.slotted) { .array($0.table.slots.map(SlotReport.json)) },
            "data_key_origin": .optional(found.sidecar?.slotted) { .string($0.dataKey.origin.rawValue) },
            "epoch": .optional(found.sidecar) { .int($0.epoch) },
            "generation": .optional(found.sidecar) { .int($0.generation) },
            "rolled_back": .optional(found.age, \.json),
            "page_bytes": .optional(settings) { .int($0.pageBytes) },
            "plaintext_header_bytes": .optional(settings) { .int($0.plaintextHeaderBytes) },
            "kdf_rounds": .optional(settings) { .int($0.kdfRounds) },
            "kdf_hash": .optional(settings) { .string($0.kdfHash.rawValue) },
            "hmac_hash": .optional(settings) { .string($0.hmacHash.rawValue) },
            "file_bytes": .int(found.fileBytes), "pages": .int(found.pages), "wal_bytes": .int(found.walBytes),
            "wal_frames": .int(found.walFrames), "wal_copied_frames": .optional(found.copiedFrames) { .int($0) },
            "wal_readers": .array(found.walReaders.map { .int($0.processID) }),
            "in_use": .optional(found.isInUse, JSON.bool),
            "holders": .optional(found.holders, HolderReport.json),
            "history": HistoryLines.json(found.historyReading), "filesystem": .string(found.filesystem.name),
            "filesystem_is_safe": .bool(found.filesystem.isSafeForSharedWAL),
            "free_bytes": .optional(SpacePolicy.freeBytes(path)) { .int($0) },
            "sidecar": .object(found.copies.map { JSON.Member(name: $0.copy.rawValue, value: .string($0.state)) }),
            "cipherctl_version": .string(Program.version),
            "sqlcipher_version": .optional(SQLiteLibrary.cipherVersion, JSON.string),
            "sqlite_version": .string(SQLiteLibrary.sqliteVersion),
            "attention": .array(attention(found).map(JSON.string)), "notes": .array(notes(found).map(JSON.string)),
        ])
    }

    private func lines(_ found: StoreStatus.Report) -> [String] {
        var lines = ["store        \(path)"]
        if let backup = found.backup { lines.append("backup       \(backup.folder): it is read, and never written") }
        if let sidecar = found.sidecar {
            let settings = sidecar.settings
            lines += [
                "state        \(sidecar.state.rawValue)\(found.isAuthenticated ? "" : " (not authenticated)")",
                "store id     \(sidecar.storeID)",
                "scheme       \(sidecar.scheme.name), epoch \(sidecar.epoch), generation \(sidecar.generation)",
            ]
            lines += sidecar.slots.map(line) + found.keyHealth.lines
            lines += [
                "cipher       AES-256, HMAC-\(settings.hmacHash.rawValue.uppercased()), PBKDF2-"
                    + "\(settings.kdfHash.rawValue.uppercased()) x \(settings.kdfRounds), \(settings.pageBytes)-byte "
                    + "pages, "
                    + "\(settings.plaintextHeaderBytes) plain header bytes"
            ]
        }
        lines += HistoryLines.lines(found.historyReading)
        let use = found.isInUse.map { $0 ? "yes" : "no" } ?? "not known"
        lines += [
            "file         \(CountText.text(found.fileBytes, "byte")), \(CountText.text(found.pages, "page"))",
            "WAL          \(CountText.text(found.walBytes, "byte")), \(CountText.text(found.walFrames, "committed frame"))"
                + (found.copiedFrames.map { ", \($0) of them in the file" } ?? ""),
            "sidecar      " + found.copies.map { "\($0.copy.rawValue) \($0.state)" }.joined(separator: ", "),
            "in use       \(use)",
        ]
        if !found.walReaders.isEmpty {
            let readers = found.walReaders.map(\.description).joined(separator: ", ")
            lines.append("WAL kept by  \(readers): reading an old snapshot, so the WAL cannot shrink")
        }
        lines += found.holders.map(HolderReport.lines) ?? []
        lines += [
            "filesystem   \(found.filesystem.name)\(found.filesystem.isSafeForSharedWAL ? "" : ", not safe")",
            "library      SQLCipher \(SQLiteLibrary.cipherVersion ?? "not found"), SQLite \(SQLiteLibrary.sqliteVersion)",
        ]
        return lines + notes(found).map { "note         \($0)" } + attention(found).map { "attention    \($0)" }
    }

    private func attention(_ found: StoreStatus.Report) -> [String] {
        (found.attention + space.findings(found.path, walBytes: found.walBytes).map(\.text)).map {
            SuggestedCommand.completing($0)
        }
    }

    private func line(_ slot: Keyslot) -> String {
        "slot         \(slot.id) \(slot.kind.rawValue)" + (slot.label == .none ? "" : " \"\(slot.label)\"")
            + ", \(slot.token.map { $0.name.text } ?? "\(slot.derivation)")"
    }
}

/// The changes that a store records, for people and for programs.
enum HistoryLines {
    static func lines(_ reading: StoreHistoryStatus.Reading) -> [String] {
        switch reading {
        case .none: return []
        case .broken: return ["history      broken: another program has dropped tables of it"]
        case .unknown(let reason): return ["history      not known: \(reason)"]
        case .found(let history):
            let tables = history.tables.isEmpty ? "no table is recorded" : CountText.list(history.tables)
            let size = "\(CountText.text(history.changes, "change")), about \(CountText.text(history.bytes, "byte"))"
            let all = history.includesNewTables ? " and new tables" : ""
            return ["history      \(size), of \(tables)\(all)"] + history.readers.map { "reader       \($0.line)" }
        }
    }

    static func json(_ reading: StoreHistoryStatus.Reading) -> JSON {
        guard case .found(let history) = reading else { return .null }
        return .object([
            "changes": .integer(history.changes), "bytes": .integer(history.bytes),
            "tables": .array(history.tables.map(JSON.string)), "includes_new_tables": .bool(history.includesNewTables),
            "readers": .array(history.readers.map(\.json)),
        ])
    }
}

extension KeyHealth {
    /// For people.
    var lines: [String] {
        guard sidecar != nil else { return [] }
        let key = keyAge.map { "\(AgeText.text($0)) old" } ?? "age not known"
        let unknown = backupVerified == nil ? "none known" : "at a time in the future"
        let backup = backupAge.map { "\(AgeText.text($0)) ago" } ?? unknown
        return ["data key     \(key)", "backup       last verified: \(backup)", "key log      \(logLine)"]
    }

    /// For programs.
    fileprivate var members: [JSON.Member] {
        [
            .init(name: "data_key_created", value: .optional(keyCreated) { .int($0) }),
            .init(name: "data_key_age_seconds", value: .optional(keyAge) { .int($0) }),
            .init(name: "backup_verified", value: .optional(backupVerified) { .int($0) }),
            .init(name: "has_recovery_slot", value: .bool(hasRecoverySlot)),
            .init(name: "key_log_sound", value: unreadLog == nil ? .bool(logProblems.isEmpty) : .null),
            .init(name: "key_log_missing", value: .bool(isLogMissing)),
        ]
    }
}
