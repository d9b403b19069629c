import StoreFleet
import StorePlatform

/// The results of a work on a fleet: a line of JSON for each as it ends, or one table at the end.
struct FleetSummary {
    private let work: FleetWork
    private let fleet: Fleet
    private let console: Console
    private var results: [FleetResult] = []
    /// Codes of work that belongs to no store, as a prune.
    private var others: [ExitCode] = []

    init(_ work: FleetWork, _ fleet: Fleet, _ console: Console) {
        (self.work, self.fleet, self.console) = (work, fleet, console)
    }

    mutating func add(_ result: FleetResult) throws {
        results.append(result)
        if console.isJSON {
            try console.output.line(result.json.text)
            // A reader of the lines gets each when it is there.
            if !console.output.isKeptUntilEnd { try console.output.flush() }
        } else if let failure = result.failure {
            Console.talk(
                "cipherctl: error: \(result.store.withoutControls()): \(failure.message.withoutControls())\n"
                    + (failure.hint.map { "hint: \($0.withoutControls())\n" } ?? ""))
        }
    }

    /// Adds work that belongs to no store.
    mutating func add(_ subject: String, _ result: FleetResult) throws {
        others.append(result.exitCode)
        if console.isJSON {
            try console.output.line(JSON.object([JSON.Member(name: subject, value: result.json)]).text)
        } else if let failure = result.failure {
            Console.talk(
                "cipherctl: error: \(subject) \(result.store.withoutControls()): \(failure.message.withoutControls())\n"
            )
        } else {
            let removed = result.members["removed"] as? Int ?? 0
            let verb = result.members["dry_run"] as? Bool == true ? "would remove" : "removed"
            console.note("\(subject) \(result.store): \(verb) \(CountText.text(removed, "backup"))")
        }
    }

    /// The worst code of all; that of a signal where one has ended the work.
    var exitCode: ExitCode {
        if Interruption.hasArrived { return .interrupted }
        return FleetReport.worst(of: results.map(\.exitCode) + others)
    }

    private func count(_ verdict: FleetResult.Verdict) -> Int { results.count { $0.verdict == verdict } }

    /// - Parameter count: How many stores there are; the others were not begun.
    func report(of count: Int) throws {
        let left = max(0, count - results.count)
        if console.isJSON {
            let counts = FleetResult.Verdict.allCases.map { JSON.Member(name: $0.word, value: .int(self.count($0))) }
            let summary = JSON.object(
                [
                    .init(name: "fleet", value: .string(fleet.path)),
                    .init(name: "command", value: .string(work.rawValue)),
                    .init(name: "stores", value: .int(count)),
                ] + counts + [
                    .init(name: "not_begun", value: .int(left)),
                    .init(name: "exit_code", value: .int(exitCode.rawValue)),
                ])
            return try console.output.line(JSON.object(["summary": summary]).text)
        }
        for line in table { try console.line(line) }
        let parts = FleetResult.Verdict.allCases.filter { self.count($0) > 0 }.map {
            "\(self.count($0)) \($0.rawValue)"
        }
        try console.line(
            "\(CountText.text(count, "store")): "
                + (parts + (left > 0 ? ["\(left) not begun"] : [])).joined(separator: ", "))
    }

    /// A line for each store, in the order of the file, as wide as the terminal allows.
    private var table: [String] {
        let order = Dictionary(
            (fleet.stores.map(\.path) + fleet.gaps.map(\.pattern)).enumerated().map { ($1, $0) }, uniquingKeysWith: min)
        let sorted = results.sorted { (order[$0.store] ?? 0) < (order[$1.store] ?? 0) }
        let rows = sorted.map { result in
            [
                result.store.withoutControls(), result.verdict.rawValue, String(result.exitCode.rawValue),
                result.duration.map { CountText.shortSeconds($0) } ?? "",
            ]
        }
        let heads = ["store", "result", "code", "time"]
        let widths = heads.indices.map { index in rows.reduce(heads[index].count) { max($0, $1[index].count) } }
        func line(_ cells: [String], _ details: String) -> String {
            let cells = zip(cells, widths).enumerated().map { index, cell in
                index < 2
                    ? Help.padded(cell.0, to: cell.1) : String(repeating: " ", count: cell.1 - cell.0.count) + cell.0
            }
            return Self.fitted((cells + [details.withoutControls()]).joined(separator: "  "))
        }
        return [line(heads, "details")] + zip(sorted, rows).map { line($1, $0.details(work)) }
    }

    /// The line, cut at the right edge of a terminal. Output that goes elsewhere is not cut.
    private static func fitted(_ line: String) -> String {
        guard let columns = Terminal.columns(of: 1), columns >= 20, line.count > columns else { return line }
        return line.prefix(columns - 3) + "..."
    }
}
