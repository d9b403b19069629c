/// What became of all stores of one call, and its one exit code.
struct FleetReport {
    private(set) var outcomes: [RotationOutcome] = []
    /// Whether errors are told as JSON.
    private let isJSON: Bool

    init(isJSON: Bool = false) { self.isJSON = isJSON }

    /// From what is well to what is worst.
    private static let order: [ExitCode] = [
        .ok, .needsAttention, .tryAgain, .storeInUse, .interrupted, .usage, .noSuchStore, .notPermitted, .unsupported,
        .failed, .inputOutput, .damagedData,
    ]

    mutating func add(_ outcome: RotationOutcome) {
        outcomes.append(outcome)
        // Told at once: the next store may take an hour.
        if case .failed(let error) = outcome.result { Self.tell(error, of: outcome.path, isJSON: isJSON) }
    }

    /// Tells an error of one store among several on standard error.
    static func tell(_ error: any Error, of path: String, isJSON: Bool) {
        Console.talk(ErrorReport(error).text(of: path, isJSON: isJSON))
    }

    /// The worst of all.
    var exitCode: ExitCode { Self.worst(of: outcomes.map(\.exitCode)) }

    /// The worst of the codes of several stores.
    static func worst(of codes: [ExitCode]) -> ExitCode { codes.max { rank($0) < rank($1) } ?? .ok }

    private static func rank(_ code: ExitCode) -> Int { order.firstIndex(of: code) ?? order.count }

    /// - Parameter count: How many stores were named; the rest was not begun.
    func report(of count: Int, _ console: Console) throws {
        let groups = [
            "rotated", "skipped", "not-judged", "planned", "pending", "abandoned", "nothing-pending", "failed",
        ].map { name in
            (name, outcomes.filter { $0.name == name }.count)
        }
        let left = count - outcomes.count
        if console.isJSON {
            let counts = groups.map { JSON.Member(name: $0.0.replacing("-", with: "_"), value: .int($0.1)) }
            try console.output.line(
                JSON.object(
                    [JSON.Member(name: "stores", value: .array(outcomes.map(\.json)))] + counts + [
                        .init(name: "not_begun", value: .int(left)),
                        .init(name: "exit_code", value: .int(exitCode.rawValue)),
                    ]
                ).text)
        } else if count > 1 {
            let parts = groups.filter { $0.1 > 0 }.map { "\($0.1) \($0.0.replacing("-", with: " "))" }
            try console.output.line(
                "\(count) stores: " + (parts + (left > 0 ? ["\(left) not begun"] : [])).joined(separator: ", "))
        }
    }
}
