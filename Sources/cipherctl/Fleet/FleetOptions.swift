import ServicePlatform
import StoreFleet
import StorePlatform
import StoreTools

/// The options by which a command works on all stores of a fleet file.
enum FleetOptions {
    static let fleet = OptionSyntax(
        "--fleet", value: "FILE",
        "instead of STORE: all stores of a fleet file, \(FleetFile.standardPath) unless FILE is given",
        isValueOptional: true)
    static let only = OptionSyntax(
        "--only", value: "GLOB", "with --fleet: only stores whose path, or name, matches", isRepeatable: true)
    static let jobs = OptionSyntax(
        "--jobs", value: "N",
        "with --fleet: how many stores at a time; \(FleetFile.usualJobs) unless given here or in the file")
    static let timeLimit = OptionSyntax(
        "--time-limit", value: "AGE", "with --fleet: how long the work on one store may take, as 12h")
    static let dryRun = OptionSyntax("--dry-run", "show what would be done, and change nothing")

    static let all = [fleet, only, jobs, timeLimit]

    /// The time limit of `status` and `doctor`, which read a few pages.
    static let checkLimit = Duration.seconds(120)

    /// Reads the fleet that the arguments name.
    ///
    /// - Throws: ``CommandFailure``; ``UsageError`` where no store is left.
    static func read(_ arguments: ParsedArguments) throws -> Fleet {
        let path = arguments.value("--fleet") ?? FleetFile.standardPath
        do {
            let fleet = try Fleet(readingFrom: path).only(arguments.values("--only"))
            guard !fleet.stores.isEmpty || !fleet.gaps.isEmpty else {
                throw UsageError(
                    "No store of the fleet matches --only.", hint: "A pattern without a slash is compared with names.")
            }
            return fleet
        } catch let error as FleetFileError {
            throw CommandFailure(
                .usage, "fleetFile", what: "The fleet file cannot be used.", why: error.description, hint: error.hint)
        } catch let error as SystemError where error.isNotFound {
            throw CommandFailure(
                .usage, "fleetFile", what: "The fleet file cannot be used.", why: "\"\(path)\" does not exist.",
                hint: "Write it as Docs/Operations.md shows, or give --fleet FILE.")
        }
    }

    /// - Throws: ``UsageError`` where a number is none.
    static func jobs(_ arguments: ParsedArguments) throws(UsageError) -> Int? {
        guard let text = arguments.value("--jobs") else { return nil }
        guard let jobs = Int(text), (1...FleetFile.mostJobs).contains(jobs) else {
            throw UsageError("--jobs needs a number from 1 to \(FleetFile.mostJobs).", hint: "Write: --jobs 4")
        }
        return jobs
    }

    /// - Throws: ``UsageError`` where it is no duration.
    static func timeLimit(_ arguments: ParsedArguments) throws(UsageError) -> Duration? {
        guard let text = arguments.value("--time-limit") else { return nil }
        guard let seconds = AgeText.seconds(text), seconds > 0 else {
            throw UsageError("--time-limit is not a duration.", hint: "For example: --time-limit 12h")
        }
        return .seconds(seconds)
    }
}

extension ParsedArguments {
    /// Whether the command is to work on all stores of a fleet file.
    var asksForFleet: Bool { has("--fleet") || value("--fleet") != nil }
}
