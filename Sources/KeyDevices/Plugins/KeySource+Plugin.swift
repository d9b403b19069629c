import KeyCustody
import StoreCrypto
import StorePlatform

extension KeySource {
    /// A plugin that keeps the secret of a keyslot: the program `cipherctl-key-<name>` in one of the folders.
    ///
    /// It opens stores with a keyslot of this plugin. The source keeps the secret: the plugin is asked once, however often
    /// the store is opened by this source. `Docs/Formats/KeyPlugin.md` is the protocol.
    ///
    /// - Parameters:
    ///   - name: 1 to 32 small letters, digits and hyphens, the first of them a letter.
    ///   - options: Its own options, which are in each request. Options are not secrets. Their names are words of small
    ///     letters, digits and hyphens.
    ///   - folders: Absolute folders; nil uses `CIPHERSTORE_PLUGIN_PATH`, or `/usr/lib/cipherstore/plugins` and
    ///     `/usr/local/lib/cipherstore/plugins`. A program that another user could change is refused (`invalidKey`).
    ///   - timeout: The longest time of one request, without the time in which a person is asked.
    ///   - environment: The names of environment variables that it gets, besides ``pluginEnvironment``.
    ///   - onNote: Receives what the plugin reports while it works.
    ///   - onPrompt: Asks a person; nil ends the request. The default prompts at the terminal.
    /// - Throws: `StoreError` `invalidKey` for a name, option or folder that cannot be used.
    public static func plugin(
        _ name: String, options: [String: String] = [:], folders: [String]? = nil,
        timeout: Duration = .seconds(30), environment: [String] = [],
        onNote: @escaping @Sendable (String) -> Void = { _ in },
        onPrompt: @escaping @Sendable (PluginPrompt) throws -> Passphrase? = PluginPrompt.atTerminal
    ) throws -> KeySource {
        let path = try PluginPath(folders)
        guard PluginName.isValid(name), options.keys.allSatisfy(PluginName.isValid) else {
            throw StoreError(
                .invalidKey, what: "The plugin cannot be asked.",
                why: "Its name, or that of an option, is not a word of small letters, digits and hyphens.",
                remedy: "Check the names.")
        }
        let device = PluginDevice(plugin: name, options: options) {
            PluginDialogue(
                name: name, program: try path.program(of: name), environment: pluginEnvironment + environment,
                timeout: timeout, ask: onPrompt, note: onNote)
        }
        return .token(device, onAsk: onNote)
    }

    /// The names of the environment variables that every plugin gets.
    public static let pluginEnvironment = [
        "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ",
        "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "CREDENTIALS_DIRECTORY",
    ]
}

extension PluginPrompt {
    /// Asks at the terminal.
    ///
    /// - Returns: nil where there is no terminal, or nothing was typed.
    public static let atTerminal: @Sendable (PluginPrompt) throws -> Passphrase? = { prompt in
        let text = "\(prompt.plugin): \(prompt.text) "
        if prompt.isShown {
            guard let answer = try? Terminal.ask(prompt: text), !answer.isEmpty else { return nil }
            return try Passphrase(answer)
        }
        guard let answer = try? Terminal.readWithoutEcho(prompt: text), answer.count > 0 else { return nil }
        return try Passphrase(answer.withBytes { SecretBytes(copying: $0) })
    }
}
