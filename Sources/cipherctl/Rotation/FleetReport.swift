/// What became of all stores of one call, and its one exit code.
struct FleetReport {
    private(set) var outcomes: [RotationOutcome] = []

    /// From what is well to what is worst.
    private static let order: [ExitCode] = [
        .ok, .needsAttention, .tryAgain, .storeInUse, .interrupted, .usage, .noSuchStore, .notPermitted, .unsupported,
        .failed, .inputOutput, .damagedData,
    ]

    mutating func add(_ outcome: RotationOutcome) {
        outcomes.append(outcome)
        // Told at once: the next store may take an hour.
        guard case .failed(let error) = outcome.result else { return }
        let report = ErrorReport(error)
        Console.talk(
            "cipherctl: error: \(outcome.path): \(report.message)\n" + (report.hint.map { "hint: \($0)\n" } ?? ""))
    }

    /// The worst of all.
    var exitCode: ExitCode {
        outcomes.map(\.exitCode).max { Self.rank($0) < Self.rank($1) } ?? .ok
    }

    private static func rank(_ code: ExitCode) -> Int { order.firstIndex(of: code) ?? order.count }

    /// - Parameter count: How many stores were named; the rest was not begun.
    func report(of count: Int, _ console: Console) throws {
        let groups = ["rotated", "skipped", "planned", "abandoned", "nothing-pending", "failed"].map { name in
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
