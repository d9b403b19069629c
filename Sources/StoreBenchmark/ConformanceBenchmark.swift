import CBaseline
import CipherStore
import EncryptionConformance
import Foundation
import PageFormat
import StoreCrypto
import StoreTools

/// `make bench-conformance`: HMAC-SHA512 of as many pages by libcrypto alone, `verify`, and the conformance kit, in turns
/// on one store.
struct ConformanceBenchmark {
    private let megabytes: Int
    private let runs: Int
    private static let keySource = KeySource.rawKey([UInt8](repeating: 0x2a, count: 32))

    /// Times of one kind of work, in seconds.
    private struct Times {
        var wall: [Double] = []
        var processor: [Double] = []

        mutating func measure<T>(_ body: () throws -> T) rethrows -> T {
            let (clock, processorStart) = (ContinuousClock(), processor_seconds())
            let start = clock.now
            let result = try body()
            wall.append((clock.now - start) / .seconds(1))
            processor.append(processor_seconds() - processorStart)
            return result
        }
    }

    /// - Parameter arguments: `--megabytes N` (1024 without it), `--runs N` (5 without it).
    init(_ arguments: [String]) throws {
        let options = try ModeOptions(arguments, mode: "--conformance", names: ["--megabytes", "--runs"])
        func number(_ name: String, or standard: Int) throws -> Int {
            guard let text = options[name] else { return standard }
            guard let number = Int(text), number > 0 else {
                throw BenchmarkError(description: "\(name) needs a number above 0")
            }
            return number
        }
        megabytes = try number("--megabytes", or: 1024)
        runs = try number("--runs", or: 5)
    }

    func run() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("conformance-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("app.db").path
        let pages = try makeStore(at: path)
        let layout = try PageLayout(.plaintextHeader)
        // From 1 GiB on one page has no content: SQLite locks its bytes.
        let written = pages - (pages >= Int(layout.lockBytePage) ? 1 : 0)
        // The input of the code of a page: the page and its number.
        let messageBytes = layout.codeOffset + MemoryLayout<UInt32>.size
        let threads = ProcessInfo.processInfo.activeProcessorCount
        var (bound, verify, kit) = (Times(), Times(), Times())
        var authentication: [Double] = []
        for run in 0...runs {
            // The first round fills the caches of the machine, and does not count.
            if run == 1 { (bound, verify, kit, authentication) = (Times(), Times(), Times(), []) }
            try bound.measure {
                let status = baseline_authenticate(Int64(pages), messageBytes, Int32(threads))
                try BenchmarkError.require(status == 0, "libcrypto computed no HMAC")
            }
            let report = try verify.measure { try StoreVerification(path, unlockedBy: Self.keySource).run() }
            try BenchmarkError.require(report.isSound && report.pagesChecked == written, "the store is damaged")
            authentication.append(report.duration / .seconds(1))
            let conformance = try kit.measure {
                try Conformance(of: StoreFile(path, unlockedBy: Self.keySource)).run()
            }
            try BenchmarkError.require(conformance.isConformant, "\(conformance)")
        }
        print("\(pages) pages of \(layout.pageBytes) bytes, \(threads) threads, medians of \(runs) runs in turns")
        printTable(bound, authentication, verify, kit)
    }

    private func makeStore(at path: String) throws -> Int {
        let store = try SharedStore.open(at: path, unlockedBy: Self.keySource)
        try store.write { try $0.execute(sql: "CREATE TABLE bulk (id INTEGER PRIMARY KEY, b)") }
        for start in stride(from: 0, to: megabytes, by: 16) {
            try store.write { db in
                let insert = try db.cachedStatement(sql: "INSERT INTO bulk (b) VALUES (randomblob(3900))")
                for _ in 0..<min(16, megabytes - start) * 256 { try insert.execute() }
            }
        }
        try store.checkpoint(.truncate)
        let pages = try store.read { try Int.fetchOne($0, sql: "PRAGMA page_count") ?? 0 }
        try store.close()
        return pages
    }

    private func printTable(_ bound: Times, _ authentication: [Double], _ verify: Times, _ kit: Times) {
        func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
        func ratio(_ values: [Double], _ others: [Double]) -> String {
            String(format: "%.2f", median(zip(values, others).map { $0 / $1 }))
        }
        func seconds(_ values: [Double]) -> String { String(format: "%.2f s", median(values)) }
        BenchmarkTable.printHead(["work", "time", "processor time", "compared", "ratio", "of processor time"])
        BenchmarkTable.printRow(["HMAC by libcrypto", seconds(bound.wall), seconds(bound.processor), "", "", ""])
        BenchmarkTable.printRow([
            "pages of verify", seconds(authentication), "", "HMAC / this", ratio(bound.wall, authentication), "",
        ])
        BenchmarkTable.printRow([
            "verify", seconds(verify.wall), seconds(verify.processor), "HMAC / this", ratio(bound.wall, verify.wall),
            ratio(bound.processor, verify.processor),
        ])
        BenchmarkTable.printRow([
            "kit", seconds(kit.wall), seconds(kit.processor), "this / verify", ratio(kit.wall, verify.wall),
            ratio(kit.processor, verify.processor),
        ])
    }
}
