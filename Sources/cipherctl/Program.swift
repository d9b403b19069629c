import CipherDatabase
import CipherStore
import Foundation
import StorePlatform
import StoreSharing

/// The whole run of the program, from its arguments to its exit code.
enum Program {
    static let version = "0.1.0"

    /// - Parameter arguments: Without the program's name.
    static func run(_ arguments: [String]) -> ExitCode {
        let beforeOperands = arguments.prefix { $0 != "--" }
        let isJSON = beforeOperands.contains("--json")
        let console = Console(isJSON: isJSON)
        Console.manner.isJSON = isJSON
        // Before anything is read that a backtrace could show.
        ProcessInspector.disableBacktraces()
        // tpm2-tss writes lines of its own to standard error. The errors of a TPM do without them.
        setenv("TSS2_LOG", "all+none", 0)
        IgnoredSignals.begin()
        do {
            // A core dump of a process with an open store contains its key.
            try ProcessInspector.disableCoreDumps()
            // A command that Ctrl-Z stops must not block writers.
            try JobControlSuspension.begin()
            try requireUTF8(arguments)
            let code = try dispatch(arguments, console)
            return try handOver(after: code, console)
        } catch {
            // Rows that were read before the error are results as well.
            try? console.output.flush()
            let report = ErrorReport(error)
            Console.tell(report)
            return report.exitCode
        }
    }

    /// Writes the rest of the result.
    ///
    /// A command that changes files has done its work by then. If standard output fails, its report goes to standard
    /// error and the command does not fail: a user who repeated it would do the work twice. A program that asked for
    /// JSON gets an error that says so.
    private static func handOver(after code: ExitCode, _ console: Console) throws -> ExitCode {
        do {
            try console.output.flush()
            return code
        } catch {
            guard console.output.isKeptUntilEnd else { throw error }
            guard console.isJSON else {
                console.warn(
                    "the command has completed; its report, which follows, could not be written to standard "
                        + "output (\(error))")
                Console.talk(console.output.takeUnwritten())
                return code
            }
            throw CommandFailure(
                .inputOutput, "reportLost", what: "The command has completed, but its report could not be written.",
                why: "\(ErrorReport(error).message)",
                hint: "Do not repeat it: check its result, for example with `cipherctl status`.")
        }
    }

    /// Swift replaces the bytes that are not UTF-8 when it reads the arguments: another file would be meant.
    private static func requireUTF8(_ arguments: [String]) throws {
        guard arguments.contains(where: { $0.contains("\u{fffd}") }) else { return }
        for index in 1..<Int(CommandLine.argc) {
            guard let bytes = CommandLine.unsafeArgv[index], String(validatingCString: bytes) == nil else { continue }
            // It may be a key in the wrong place, and is not repeated.
            throw UsageError(
                "Argument \(index) is not UTF-8.",
                hint: "Rename the file, or give a link to it whose name is UTF-8.")
        }
    }

    private static func dispatch(_ arguments: [String], _ console: Console) throws -> ExitCode {
        guard let first = arguments.first else {
            Console.talk(Help.overview)
            return .usage
        }
        switch first {
        case "--help", "-h":
            try console.output.write(Help.overview)
            return .ok
        case "help":
            try console.output.write(Help.topic(Array(arguments.dropFirst())))
            return .ok
        case "--version", "version":
            try console.report(json: Help.versionJSON, lines: Help.versionLines)
            return .ok
        default:
            return try runCommand(arguments, console)
        }
    }

    private static func runCommand(_ arguments: [String], _ console: Console) throws -> ExitCode {
        guard let (command, rest) = Catalogue.find(arguments) else { return try explainGroup(arguments, console) }
        if rest.prefix(while: { $0 != "--" }).contains(where: { $0 == "--help" || $0 == "-h" }) {
            try console.output.write(Help.text(of: command.syntax))
            return .ok
        }
        let parsed = try ParsedArguments(rest, syntax: command.syntax)
        Console.manner = try .init(parsed, isJSON: console.isJSON)
        SuggestedCommand.keep(parsed, command.syntax)
        let prepared = try Catalogue.prepare(command, parsed)
        if command.needsCryptography { try SQLiteLibrary.requireAlgorithms() }
        try refuseOtherUserLink(parsed)
        if prepared.changesFiles {
            IgnoredSignals.outliveReaders()
            console.output.isKeptUntilEnd = true
        }
        // A command that has something to take back, or ends by itself, catches signals from its work on.
        let hasWork = prepared.changesFiles || prepared.endsBySignal
        Interruption.endProgram(
            command.interruptionHint, isJSON: console.isJSON, untilWork: hasWork,
            grace: prepared.endingGrace)
        return try prepared.run(console)
    }

    /// Refuses a link of another user here, because commands for keys do not open the database. A path that cannot be
    /// looked at is left to the command, which says why.
    private static func refuseOtherUserLink(_ arguments: ParsedArguments) throws {
        guard let store = arguments.store else { return }
        do {
            try OtherUserLink.refuse(store)
        } catch is SystemError {}
    }

    /// Arguments that are no command: the first words of several, or nothing that there is.
    private static func explainGroup(_ arguments: [String], _ console: Console) throws -> ExitCode {
        let words = Array(arguments.prefix { !$0.hasPrefix("-") })
        let group = Catalogue.group(words).map { $0.syntax.name }
        guard !group.isEmpty else {
            // The typed text may be a key in the wrong place: it is not repeated.
            let meant = Catalogue.nearest(to: words).map { "Did you mean `cipherctl \($0)`? " } ?? ""
            throw UsageError("There is no such command.", hint: meant + "See: cipherctl help")
        }
        if arguments.contains(where: { $0 == "--help" || $0 == "-h" }) {
            try console.output.write(Help.topic(words))
            return .ok
        }
        throw UsageError(
            "\"\(words.joined(separator: " "))\" is the beginning of several commands.",
            hint: "One of: \(group.joined(separator: ", ")).")
    }
}
