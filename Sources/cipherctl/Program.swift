import CipherStore
import StorePlatform

/// The whole run of the program, from its arguments to its exit code.
enum Program {
    static let version = "0.1.0"

    /// - Parameter arguments: Without the program's name.
    static func run(_ arguments: [String]) -> ExitCode {
        let beforeOperands = arguments.prefix { $0 != "--" }
        let isJSON = beforeOperands.contains("--json")
        let console = Console(isJSON: isJSON)
        // Before anything is read that a backtrace could show.
        ProcessInspector.disableBacktraces()
        IgnoredSignals.begin()
        do {
            // A core dump of a process that has a store open holds its key.
            try ProcessInspector.disableCoreDumps()
            // A command that is stopped by Ctrl-Z must keep nobody from writing.
            try JobControlSuspension.begin()
            let code = try dispatch(arguments, console)
            try console.output.flush()
            return code
        } catch {
            // Rows that were read before the error are results all the same.
            try? console.output.flush()
            let report = ErrorReport(error)
            Console.talk(isJSON ? report.json.text + "\n" : report.text)
            return report.exitCode
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
        guard let (command, rest) = Catalogue.find(arguments) else {
            throw UsageError("There is no such command.", hint: "See: cipherctl help")
        }
        if rest.prefix(while: { $0 != "--" }).contains(where: { $0 == "--help" || $0 == "-h" }) {
            try console.output.write(Help.text(of: command.syntax))
            return .ok
        }
        let parsed = try ParsedArguments(rest, syntax: command.syntax)
        if command.changesFiles { IgnoredSignals.outliveReaders() }
        return try command.init(parsed).run(console)
    }
}
