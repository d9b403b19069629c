import KeyCustody
import StoreCrypto
import StorePlatform

/// One request to a key plugin: the program is started for it, and has ended afterwards.
struct PluginDialogue {
    let name: String
    let program: String
    /// The names of the environment variables that it gets.
    let environment: [String]
    let timeout: Duration
    let ask: @Sendable (PluginPrompt) throws -> Passphrase?
    let note: @Sendable (String) -> Void

    /// Sends a request, answers the questions of the plugin, and returns its last line.
    ///
    /// - Throws: `StoreError` `keyMissing`, `wrongKey` or `invalidKey`; what answering throws.
    func result(of request: consuming PluginRequest) throws -> PluginReply {
        request.end()
        guard !request.isTooLong else { throw invalid("The request is longer than a line may be.") }
        do {
            let running = try ProgramDialogue.start(program, environment: environment)
            var left = timeout
            try running.send(request.line, deadline: .now + left)
            for _ in 0..<PluginLimits.turns {
                let start = ContinuousClock.now
                let line = try running.receive(
                    limitBytes: PluginLimits.lineBytes, deadline: start + left, limit: timeout)
                left -= .now - start
                guard let reply = PluginReply(line) else { throw invalid("Its answer is not of the protocol.") }
                guard let answer = try answer(to: reply) else { return try accepted(reply) }
                try running.send(answer.line, deadline: .now + left)
            }
            throw invalid("It asked too many questions.")
        } catch let failure as Subprocess.Failure {
            throw missing(Self.reason(failure))
        }
    }

    /// The next line to the plugin; nil when it has given its result.
    private func answer(to reply: PluginReply) throws -> PluginRequest? {
        switch reply {
        case .prompt(let text, let isShown):
            var line: PluginRequest
            if let answer = try ask(PluginPrompt(plugin: name, text: text, isShown: isShown)) {
                line = PluginRequest("answer ")
                Secret.passphrase(answer).withBytes { line.add($0) }
            } else {
                line = PluginRequest("cancel")
            }
            line.end()
            return line
        case .note(let text):
            note("\(name): \(text)")
            var line = PluginRequest("ok")
            line.end()
            return line
        case .blob, .secret, .foreign, .text, .failure: return nil
        }
    }

    private func accepted(_ reply: PluginReply) throws(StoreError) -> PluginReply {
        guard case .failure(let failure, let text) = reply else { return reply }
        let why = text.isEmpty ? "The plugin says: \(failure.rawValue)." : "The plugin says: \(text)"
        switch failure {
        case .refused:
            throw StoreError(
                .wrongKey, what: "The plugin \"\(name)\" gave no key.", why: why,
                remedy: "Check the PIN, passphrase or credential that it was given.")
        case .invalid: throw invalid(why)
        case .absent, .locked: throw missing(why)
        }
    }

    /// The error for a result that does not belong to the request.
    func invalid(_ why: String) -> StoreError {
        StoreError(
            .invalidKey, what: "The plugin \"\(name)\" gave no key.", why: why,
            remedy: "Check its options and its version (Docs/Formats/KeyPlugin.md).")
    }

    private func missing(_ why: String) -> StoreError {
        StoreError(
            .keyMissing, what: "The plugin \"\(name)\" gave no key.", why: why,
            remedy: "Check what it needs, or give another key of the store.")
    }

    private static func reason(_ failure: Subprocess.Failure) -> String {
        switch failure {
        case .cannotRun(let error): "It could not be run: \(error)."
        case .timedOut(let limit): "It did not answer within \(CountText.seconds(limit)) and was killed."
        case .outputTooLong: "Its answer is longer than \(PluginLimits.lineBytes) bytes."
        case .exited(let status): "It ended with status \(status) and gave no answer."
        case .killed(let signal): "It was ended by signal \(signal)."
        }
    }
}

/// A question of a plugin for a person.
public struct PluginPrompt: Hashable, Sendable {
    /// The name of the plugin.
    public let plugin: String
    /// One line without control characters.
    public let text: String
    /// Whether the answer may be seen; otherwise it is a secret.
    public let isShown: Bool
}
