import StoreFleet

/// All commands, in the order in which help lists them.
enum Catalogue {
    static var all: [any Command.Type] {
        [
            CreateCommand.self, ImportCommand.self, AdoptCommand.self, SQLCommand.self, ShellCommand.self,
            ImportCSVCommand.self, DumpCommand.self, WatchCommand.self, HistoryCommand.self,
            HistoryRecordCommand.self, HistoryStopCommand.self, HistoryReadersCommand.self,
            SyncInitCommand.self, SyncInviteCommand.self, SyncJoinCommand.self, SyncStatusCommand.self,
            SyncRunCommand.self, SyncPushCommand.self, SyncFetchCommand.self, SyncPullCommand.self,
            SyncCommitCommand.self, SyncConflictsCommand.self, SyncLogCommand.self, SyncDiffCommand.self,
            SyncRevertCommand.self, SyncVerifyCommand.self, SyncMembersCommand.self, SyncRemotesCommand.self,
            SyncSnapshotCommand.self, StatusCommand.self, ServeMetricsCommand.self, DoctorCommand.self,
            VerifyCommand.self, HashCommand.self,
            KeyListCommand.self, KeyAddCommand.self,
            KeyChangeCommand.self, KeyLabelCommand.self, KeyRemoveCommand.self, KeyTestCommand.self,
            KeyRecoveryCommand.self, KeyRevealCommand.self, KeyConvertCommand.self, KeyAcceptCommand.self,
            KeyLogCommand.self, ConformanceCommand.self, SalvageCommand.self, ExportCommand.self, BackupCommand.self,
            BackupListCommand.self, BackupVerifyCommand.self, BackupPruneCommand.self, ReplicateCommand.self,
            RestoreCommand.self,
            RotateCommand.self, DestroyCommand.self, CompletionsCommand.self, ManCommand.self,
        ]
    }

    /// A command with its arguments; with `--fleet` the same for all stores of a fleet file.
    ///
    /// - Throws: ``UsageError``.
    static func prepare(
        _ command: any Command.Type, _ arguments: ParsedArguments
    ) throws -> any PreparedCommand {
        if arguments.asksForFleet, let work = FleetWork(rawValue: command.syntax.name) {
            return try FleetCommand(work, arguments, command.syntax)
        }
        for option in [FleetOptions.only, FleetOptions.jobs, FleetOptions.timeLimit]
        where command.syntax.option("--fleet") != nil && arguments.value(option.name) != nil
            && command.syntax.operands.isEmpty == false
        {
            throw UsageError("\(option.name) is given without --fleet.", hint: "Give both, or neither.")
        }
        return try command.init(arguments)
    }

    /// The commands whose names begin with these words and have more of them, as `key list` after `key`.
    static func group(_ words: [String]) -> [any Command.Type] {
        all.filter { command in
            let name = command.syntax.name.split(separator: " ").map(String.init)
            return !words.isEmpty && name.count > words.count && name.starts(with: words)
        }
    }

    /// The name that differs from the first words by two letters at most; nil where none does.
    static func nearest(to words: [String]) -> String? {
        let found = all.map { command in
            let name = command.syntax.name
            let typed = words.prefix(name.split(separator: " ").count).joined(separator: " ")
            return (name: name, changes: NearName.changes(from: typed, to: name))
        }
        return found.filter { $0.changes <= 2 && $0.changes * 2 < $0.name.count }.min { $0.changes < $1.changes }?.name
    }

    /// The command at the beginning of arguments, and the arguments after its name; nil when there is none. The longer
    /// name counts: `backup verify` is not `backup` of a store named "verify".
    static func find(_ arguments: [String]) -> (command: any Command.Type, rest: [String])? {
        let found = all.map { ($0, $0.syntax.name.split(separator: " ").map(String.init)) }
            .filter { arguments.starts(with: $0.1) }
            .max { $0.1.count < $1.1.count }
        return found.map { ($0.0, Array(arguments.dropFirst($0.1.count))) }
    }
}
