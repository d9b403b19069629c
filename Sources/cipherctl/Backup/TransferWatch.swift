import CipherStore
import Foundation
import KeyRotation
import StoreBackups
import StoreSharing
import StoreTools

/// Shows the progress of a backup or a restoration, with speed and remaining time, and ends it on a signal.
final class TransferWatch: Sendable {
    private let bar: ProgressBar
    private let start = ContinuousClock.now

    init(_ title: String) { bar = ProgressBar(title) }

    /// Runs the work.
    ///
    /// - Throws: ``CommandFailure`` with exit code 130 when a signal ended it; what `body` throws.
    func run<T>(
        _ body: (@escaping @Sendable (BackupProgress) -> Void, @escaping @Sendable () -> Bool) throws -> T
    ) throws -> T {
        let interruption = Interruption.shared
        defer { end() }
        return try Interruption.explaining { try body({ [self] in show($0) }, { interruption.isSet }) }
    }

    func end() { bar.end() }

    private func show(_ progress: BackupProgress) {
        let seconds = max(0.001, (ContinuousClock.now - start) / .seconds(1))
        let speed = Double(progress.bytesDone) / seconds
        let detail =
            switch progress.phase {
            case .copying:
                CountText.speed(bytesPerSecond: speed) + ", "
                    + CountText.decimal(
                        Double(progress.bytesTotal - progress.bytesDone) / max(1, speed), digits: 0) + " s left"
            case .verifying: "verifying"
            }
        bar.show(progress.bytesDone, of: progress.bytesTotal, detail: detail)
    }
}
