import Foundation
import TestKit
import Testing

/// Many processes on one store. The tests assert that nothing fails and nothing is lost; times are printed.
///
/// `make soak` runs 200 processes (`CIPHERSTORE_CROWD`), `make test` a few.
@Suite(.serialized) struct CrowdTests {
    private static let given = ProcessInfo.processInfo.environment["CIPHERSTORE_CROWD"].flatMap { Int($0) }
    private static let processes = max(4, given ?? 8)
    /// How many transactions each process commits before and after its interruption.
    private static let transactions = given == nil ? 10 : 50

    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private func crowd(_ count: Int, megabytes: Int = 0) throws -> WriterCrowd {
        try WriterCrowd(count, at: path, folder: folder.url.path) { founder in
            for _ in 0..<megabytes { founder.ask("fill 1000000") }
        }
    }

    private func opened(_ count: Int, megabytes: Int = 0) throws -> WriterCrowd {
        let crowd = try crowd(count, megabytes: megabytes)
        let failures = crowd.open().failures
        #expect(failures.isEmpty, "\(failures)")
        return crowd
    }

    private func text(_ duration: Duration) -> String { String(format: "%.1f s", duration / .seconds(1)) }

    @Test("a crowd of processes opens one store at the same moment, and each of them writes")
    func openingAndWriting() throws {
        let crowd = try crowd(Self.processes)
        let opening = crowd.open()
        #expect(opening.failures.isEmpty, "\(opening.failures)")
        crowd.begin()
        #expect(crowd.eachCommits(Self.transactions), "a process does not get to write")
        let work = crowd.end()
        #expect(work.failures.isEmpty, "\(work.failures)")
        #expect(crowd.audit(work).isEmpty)
        print(
            "crowd: \(Self.processes) processes opened in \(text(opening.time)); \(work.rate) transactions/s, the "
                + "longest \(work.longestMilliseconds) ms")
    }

    @Test("a store that a crowd writes to is rotated, and no write of the crowd fails")
    func rotation() throws {
        let count = max(3, Self.processes * 3 / 4)
        let crowd = try opened(count, megabytes: 16)
        let rotator = try ActorProcess()
        #expect(rotator.ask("open \(path) raw 30")?.hasPrefix("ok ") == true)
        crowd.begin()
        #expect(crowd.eachCommits(Self.transactions), "a process does not get to write")
        let start = ContinuousClock.now
        let answer = rotator.ask("rotate") ?? "died"
        let time = ContinuousClock.now - start
        #expect(answer.hasPrefix("ok 1 2 "), "\(answer)")
        #expect(crowd.eachCommits(Self.transactions), "a process does not go on after the rotation")
        let work = crowd.end()
        rotator.end()
        #expect(work.failures.isEmpty, "\(work.failures)")
        #expect(crowd.audit(work).isEmpty)
        let pause = answer.split(separator: " ").dropFirst(3).first ?? "?"
        print(
            "crowd: rotated under \(count) writers in \(text(time)), a pause of \(pause) ms; \(work.rate) "
                + "transactions/s, the longest \(work.longestMilliseconds) ms")
    }

    @Test("random bytes over the shared memory of the lock file cost writers time, and nothing else")
    func overwrittenTable() throws {
        let (seed, rounds) = (Seed(), Self.given == nil ? 20 : 300)
        var numbers = seed.numbers(0)
        let crowd = try opened(6)
        crowd.begin()
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: path + "-lock"))
        let fileBytes = Int(try file.seekToEnd())
        for _ in 0..<rounds {
            // From byte 4096 on the file is mapped: a shared page, then a row for each holder (Docs/Formats/LockFile.md).
            let isHead = Bool.random(using: &numbers)
            let start = isHead ? 4096 : Int.random(in: 4096..<fileBytes, using: &numbers)
            let count = min(Int.random(in: 1...4096, using: &numbers), fileBytes - start)
            try file.seek(toOffset: UInt64(start))
            try file.write(contentsOf: (0..<count).map { _ in UInt8.random(in: 0...255, using: &numbers) })
            #expect(crowd.eachCommits(1), "\(seed): a process does not get to write")
        }
        try file.close()
        let work = crowd.end()
        #expect(work.failures.isEmpty, "\(seed): \(work.failures)")
        #expect(crowd.audit(work).isEmpty, "\(seed)")
        print(
            "crowd: the table was overwritten \(rounds) times; the longest transaction \(work.longestMilliseconds) ms; "
                + "\(seed)")
    }
}
