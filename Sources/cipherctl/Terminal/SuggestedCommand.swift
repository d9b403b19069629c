import StorePlatform
import Synchronization

/// A command line for a hint. It works as it is typed: it names the store of the present command and its key, as they were
/// given.
///
/// No secret is in it: the options of a key name a file, a descriptor, a program, a variable or a credential.
struct SuggestedCommand {
    /// The command line.
    let text: String

    /// - Parameters:
    ///   - command: Such as `history record`.
    ///   - store: The store; nil for that of the present command.
    ///   - words: Further operands, already as words of a shell.
    ///   - options: Options without a value.
    ///   - needsKey: Whether the command opens the store.
    init(
        _ command: String, store: String? = nil, words: [String] = [], _ options: String..., needsKey: Bool = true
    ) {
        let present = Self.present.withLock { $0 }
        let path = (store ?? present.store).map { ShellWord.path($0) } ?? "STORE"
        text = (["cipherctl", command, path] + words + options + (needsKey ? present.key : [])).joined(separator: " ")
    }

    // MARK: The present command

    private struct Present {
        /// The store as it was typed.
        var store: String?
        /// The option of the key with its value.
        var key: [String] = []
    }

    private static let present = Mutex(Present())

    /// Keeps the store and the options of the key of the command that runs.
    static func keep(_ arguments: ParsedArguments, _ syntax: CommandSyntax) {
        let place = syntax.operands.firstIndex { $0.name == "STORE" }
        let store = place.flatMap { arguments.operands.indices.contains($0) ? arguments.operands[$0] : nil }
        let key = KeyOptions.all.flatMap { option in
            // A descriptor is read once.
            option.name == "--key-fd" ? [] : arguments.value(option.name).map { [option.name, ShellWord.quoted($0)] } ?? []
        }
        present.withLock { $0 = Present(store: store, key: key) }
    }
}
