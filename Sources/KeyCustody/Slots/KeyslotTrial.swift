/// The trial of a passphrase on a keyslot with a slow derivation.
///
/// Only trials show which keyslot a passphrase opens. A trial takes about 300 ms, and a store may have 32 keyslots: an
/// opening with a wrong passphrase takes about 11 s.
public struct KeyslotTrial: Hashable, Sendable {
    /// The number of the trial, from 1; in the last report the number of trials.
    public let number: Int
    /// The number of keyslots that may have to be tried.
    public let count: Int
    /// The time since the first trial began.
    public let elapsed: Duration
    /// Whether the trials have ended: a keyslot was opened, or none of them fits.
    public let hasEnded: Bool
}

/// The trials of one secret, which it reports: one report before each slow derivation, and one at the end.
final class KeyslotTrials {
    private let count: Int
    private let report: (@Sendable (KeyslotTrial) -> Void)?
    private let start = ContinuousClock.now
    private var number = 0

    init(_ slots: [Keyslot], report: (@Sendable (KeyslotTrial) -> Void)?) {
        count = slots.count { $0.derivation.isMemoryHard && $0.derivation.isAvailable }
        self.report = report
    }

    func begin(_ slot: Keyslot) {
        guard slot.derivation.isMemoryHard else { return }
        number += 1
        tell(hasEnded: false)
    }

    func end() { if number > 0 { tell(hasEnded: true) } }

    private func tell(hasEnded: Bool) {
        report?(KeyslotTrial(number: number, count: count, elapsed: .now - start, hasEnded: hasEnded))
    }
}
