#if canImport(Darwin)
    import Darwin
    import Dispatch
    import Synchronization
    import notify

    /// Darwin's notifications between processes, which have a name and no content.
    /// - SeeAlso: <https://developer.apple.com/documentation/darwinnotify>
    package enum SystemNotifications {
        /// Posts a notification.
        package static func post(_ name: String) { notify_post(name) }

        /// Calls a function after posts.
        ///
        /// - Throws: ``SystemError`` when the system refuses it.
        package static func observe(
            _ name: String, _ onPost: @escaping @Sendable () -> Void
        ) throws(SystemError) -> SystemNotificationRegistration {
            var token: Int32 = 0
            let queue = DispatchQueue(label: "CipherStore.Notifications")
            guard notify_register_dispatch(name, &token, queue, { _ in onPost() }) == NOTIFY_STATUS_OK else {
                throw SystemError(call: "notify_register_dispatch", path: nil, errorNumber: EIO)
            }
            return SystemNotificationRegistration(token)
        }
    }

    /// A registration for notifications, until it is cancelled or deallocated.
    package final class SystemNotificationRegistration: Sendable {
        private let token: Mutex<Int32?>

        fileprivate init(_ token: Int32) { self.token = Mutex(token) }

        deinit { cancel() }

        package func cancel() {
            if let token = token.withLock({ $0.take() }) { notify_cancel(token) }
        }
    }
#endif
