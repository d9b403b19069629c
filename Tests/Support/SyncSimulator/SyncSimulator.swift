import Foundation
import SeededRandom
import SyncSimulation

/// Runs schedules of the simulation, and plays single ones back.
///
/// ```
/// SyncSimulator --first 0 --count 100000 [--seconds N] [--failures N]
/// SyncSimulator --replay 4711 [--without 3,5,8]
/// SyncSimulator --shrink 4711
/// ```
@main
struct SyncSimulator {
    private var first = 0
    private var count = 1000
    private var seconds: Double = .infinity
    private var mostFailures = 20
    private var leftOut: Set<Int> = []

    static func main() throws {
        // Sets and dictionaries are in the same order each time only where the process begins with this.
        if getenv("SWIFT_DETERMINISTIC_HASHING") == nil {
            setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
            var arguments = CommandLine.arguments.map { strdup($0) } + [nil]
            execv("/proc/self/exe", &arguments)
        }
        seeded_random_begin(0)
        try Simulation.prepare()
        var simulator = SyncSimulator()
        exit(simulator.run(Array(CommandLine.arguments.dropFirst())) ? 0 : 1)
    }

    /// Prints a line at once.
    private static func report(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    private mutating func run(_ arguments: [String]) -> Bool {
        var rest = arguments[...]
        var single: (number: Int, shrinks: Bool)?
        while let option = rest.popFirst() {
            let value = rest.popFirst() ?? ""
            switch option {
            case "--first": first = Int(value) ?? 0
            case "--count": count = Int(value) ?? 1000
            case "--seconds": seconds = Double(value) ?? .infinity
            case "--failures": mostFailures = Int(value) ?? 20
            case "--without": leftOut = Set(value.split(separator: ",").compactMap { Int($0) })
            case "--replay": single = (Int(value) ?? 0, false)
            case "--shrink": single = (Int(value) ?? 0, true)
            default:
                Self.report("unknown option \(option)")
                return false
            }
        }
        guard let single else { return runAll() }
        if single.shrinks { shrink(single.number) }
        return replay(single.number)
    }

    private func attempt(
        _ number: Int, without leftOut: Set<Int> = [], log: ((String) -> Void)? = nil
    ) -> Result<ScheduleSummary, any Error> {
        seeded_random_begin(UInt64(bitPattern: Int64(number)))
        do {
            return .success(try Simulation(Plan(number), leavingOut: leftOut, log: log).run())
        } catch {
            return .failure(error)
        }
    }

    private func runAll() -> Bool {
        let start = ContinuousClock.now
        var (done, failures, total) = (0, 0, ScheduleSummary())
        func report() {
            let elapsed = (ContinuousClock.now - start) / .seconds(1)
            Self.report(
                "\(done) schedules from \(first) on in \(Int(elapsed)) s, \(Int(Double(done) / max(elapsed, 0.001)))/s,"
                    + " \(failures) failed: \(total)")
        }
        for number in first..<first + count {
            guard (ContinuousClock.now - start) / .seconds(1) < seconds, failures < mostFailures else { break }
            switch attempt(number) {
            case .success(let summary): total += summary
            case .failure(let error):
                failures += 1
                Self.report("failed: \(error)\n  SyncSimulator --shrink \(number)")
            }
            done += 1
            if done % 5000 == 0 { report() }
        }
        report()
        return failures == 0
    }

    /// Leaves out every step without which the schedule fails nevertheless.
    private mutating func shrink(_ number: Int) {
        guard case .failure = attempt(number, without: leftOut) else { return }
        var hasShrunk = true
        while hasShrunk {
            hasShrunk = false
            for step in Plan(number).steps.map(\.number).reversed() where !leftOut.contains(step) {
                if case .failure = attempt(number, without: leftOut.union([step])) {
                    leftOut.insert(step)
                    hasShrunk = true
                }
            }
        }
        let without = leftOut.sorted().map(String.init).joined(separator: ",")
        Self.report("SyncSimulator --replay \(number) --without \(without)")
    }

    private func replay(_ number: Int) -> Bool {
        switch attempt(number, without: leftOut, log: Self.report) {
        case .success(let summary):
            Self.report("succeeded: \(summary)")
            return true
        case .failure(let error):
            Self.report("failed: \(error)")
            return false
        }
    }
}
