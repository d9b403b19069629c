import CipherStore
import Foundation

/// Shows how far a backup or a restoration has come, with speed and the time that is left, and ends it on a signal.
final class TransferWatch: Sendable {
    private let bar: ProgressBar
    private let start = ContinuousClock.now

    init(_ title: String, _ console: Console) {
        bar = ProgressBar(title, isAllowed: !console.isJSON)
    }

    /// Runs the work.
    ///
    /// - Throws: ``CommandFailure`` with exit code 130 when a signal ended it; what `body` throws.
    func run<T>(
        _ body: (@escaping @Sendable (BackupProgress) -> Void, @escaping @Sendable () -> Bool) throws -> T
    ) throws -> T {
        let interruption = Interruption.shared
        defer { end() }
        do {
            return try body({ [self] in show($0) }, { interruption.isSet })
        } catch is CancellationError {
            try interruption.check()
            throw CancellationError()
        }
    }

    func end() { bar.end() }

    private func show(_ progress: BackupProgress) {
        let seconds = max(0.001, (ContinuousClock.now - start) / .seconds(1))
        let speed = Double(progress.bytesDone) / seconds
        let detail =
            switch progress.phase {
            case .copying:
                String(
                    format: "%.0f MB/s, %.0f s left", speed / 1e6,
                    Double(progress.bytesTotal - progress.bytesDone) / max(1, speed))
            case .verifying: "verifying"
            }
        bar.show(progress.bytesDone, of: progress.bytesTotal, detail: detail)
    }
}

extension BackupReport {
    /// What commands print of a backup.
    var lines: [String] {
        let seconds = duration / .seconds(1)
        let speed = String(format: "%.0f MB/s", Double(bytes) / 1e6 / max(0.001, seconds))
        return [
            "store id     \(storeID)",
            "epoch        \(epoch), sidecar generation \(generation)",
            "pages        \(pages) of \(pageBytes) bytes, each authentic",
            "took         \(String(format: "%.1f s", seconds)) (\(speed))",
        ]
    }

    var members: [JSON.Member] {
        [
            JSON.Member(name: "store_id", value: .string("\(storeID)")),
            JSON.Member(name: "epoch", value: .int(epoch)),
            JSON.Member(name: "generation", value: .int(generation)),
            JSON.Member(name: "created", value: .int(created)),
            JSON.Member(name: "page_bytes", value: .int(pageBytes)),
            JSON.Member(name: "pages", value: .int(pages)),
            JSON.Member(name: "bytes", value: .int(bytes)),
            JSON.Member(name: "verified", value: .bool(true)),
            JSON.Member(name: "seconds", value: .real(duration / .seconds(1))),
        ]
    }
}
