import Foundation
import ServicePlatform
import Synchronization
import TestKit
import Testing

@Suite("Programs beside each other")
struct ConcurrentProgramsTests {
    private func run(
        _ scripts: [String], limit: Int = 4, timeLimit: Duration = .seconds(60), grace: Duration = .seconds(20),
        isCancelled: @escaping () -> Bool = { false }
    ) -> [Int: ConcurrentPrograms.Outcome] {
        var queue = Array(scripts.enumerated())[...]
        var outcomes: [Int: ConcurrentPrograms.Outcome] = [:]
        ConcurrentPrograms(limit: limit, grace: grace).run(
            next: {
                queue.popFirst().map {
                    ($0.offset, .init(arguments: ["/bin/sh", "-c", $0.element], timeLimit: timeLimit))
                }
            }, isCancelled: isCancelled, onEnd: { outcomes[$0] = $1 })
        return outcomes
    }

    @Test("each program's output, errors and end are its own")
    func outcomes() throws {
        let outcomes = run(["echo out; echo err >&2; exit 3", "cat; kill -9 $$", "head -c 300000 /dev/zero"])
        let first = try #require(outcomes[0])
        #expect(
            first.ending == .exited(3) && first.output == Array("out\n".utf8) && first.errors == Array("err\n".utf8))
        #expect(outcomes[1]?.ending == .killed(signal: 9))
        #expect(outcomes[2]?.ending == .exited(0) && outcomes[2]?.output.count == 300_000)
    }

    @Test("a program that cannot be started is an outcome, and the next one runs")
    func missing() {
        var names = ["/no/such/program", "/bin/true"][...]
        var endings: [ConcurrentPrograms.Ending] = []
        ConcurrentPrograms(limit: 1).run(
            next: { names.popFirst().map { (0, .init(arguments: [$0], timeLimit: .seconds(60))) } },
            isCancelled: { false }, onEnd: { endings.append($1.ending) })
        guard case .notStarted(let error) = endings.first else {
            Issue.record("\(endings)")
            return
        }
        #expect(error.isNotFound && endings.last == .exited(0))
    }

    @Test("no more run at a time than were asked for")
    func bound() throws {
        let folder = TemporaryFolder()
        let script = """
            cd \(folder.url.path); touch $$; ls | wc -l > count.$$.tmp; mv count.$$.tmp ../$(basename $PWD).$$.n
            sleep 0.05; rm $$; cat ../$(basename $PWD).$$.n; rm ../$(basename $PWD).$$.n
            """
        let counts = run(Array(repeating: script, count: 9), limit: 3).values.compactMap {
            Int(String(decoding: $0.output, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines))
        }
        // The file of the count is there too while it is written.
        #expect(counts.count == 9 && (counts.max() ?? 9) <= 6, "\(counts)")
    }

    @Test("a program that hangs ends at its limit, with what it has started, and the others go on")
    func hang() throws {
        let outcomes = run(
            ["trap '' TERM; sleep 300 & wait; sleep 300", "echo fine"], timeLimit: .milliseconds(400),
            grace: .milliseconds(200))
        #expect(outcomes[0]?.ending == .timedOut(.milliseconds(400)))
        #expect(outcomes[0].map { $0.duration < .seconds(20) } == true)
        #expect(outcomes[1]?.ending == .exited(0))
    }

    @Test("a cancellation ends all, and begins none")
    func cancellation() {
        let start = ContinuousClock.now
        let outcomes = run(
            ["sleep 300", "sleep 300", "sleep 300"], limit: 2,
            isCancelled: { ContinuousClock.now - start > .milliseconds(300) })
        #expect(outcomes.count == 2 && outcomes.values.allSatisfy { $0.ending == .cancelled })
    }

    @Test("a program that prints without end is ended")
    func endlessOutput() {
        let outcomes = run(["yes"])
        #expect(outcomes[0]?.ending == .outputTooLong)
        #expect((outcomes[0]?.output.count ?? 0) <= ServiceLimits.outputBytes + 65536)
    }
}
