import StorePlatform

extension Limits {
    /// The longest sidecar that is read or written.
    package static let sidecarBytes = 64 * 1024
    /// The longest passphrase, key file or output of a key command.
    package static let keySourceBytes = 64 * 1024
    /// PBKDF2 rounds that a sidecar may ask for: more would let a forged one stop every opening for minutes.
    package static let kdfRounds = 1...10_000_000
    /// Page sizes that SQLite knows, all of them powers of two.
    package static let pageBytes = 512...65_536
    /// Digits of a counter in a sidecar; the largest has room for growth and cannot overflow.
    static let counterDigits = 18
}
