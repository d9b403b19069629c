/// Arguments that make no command.
///
/// It never repeats a value or an operand that was not understood: somebody may have typed a passphrase there.
struct UsageError: Error, Equatable {
    let message: String
    let hint: String

    init(_ message: String, hint: String) {
        self.message = message
        self.hint = hint
    }
}
