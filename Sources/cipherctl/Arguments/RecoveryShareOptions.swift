import KeyCustody
import RecoveryShares

/// The shares of a recovery key as the key of a store.
enum RecoveryShareOptions {
    static let files = OptionSyntax(
        "--key-recovery-shares", value: "F",
        "a share of a recovery key; once for each share, in any order; mode 0600", isRepeatable: true)
    static let prompt = OptionSyntax(
        "--key-recovery-prompt", "shares of a recovery key, asked for at the terminal one after the other")

    static let all = [files, prompt]

    /// The source that an option names; nil for other options.
    static func source(_ name: String, _ arguments: ParsedArguments) -> KeySource? {
        switch name {
        case files.name:
            .recoveryShares(files: arguments.values(name), onMisfits: { Console.warn(RecoverySharePrompt.misfits($0)) })
        case prompt.name: RecoverySharePrompt.source
        default: nil
        }
    }
}
