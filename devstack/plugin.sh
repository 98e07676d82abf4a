#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# DevStack plugin of Climate. In local.conf:
#
#     [[local|localrc]]
#     enable_plugin climate <url of this repository>
#
# after the plugin of Heat, if there is one. Nova, Cinder and Heat are enabled for Climate with the
# same lines as in the local cloud: the files *-climate.conf in devstack/local/templates, and those
# for policy.yaml in policies there.

CLIMATE_PLUGIN_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

function climate_endpoint {
    echo "$SERVICE_PROTOCOL://$SERVICE_HOST$CLIMATE_PATH/v1"
}

# climate_merge TEMPLATE FILE NAME=VALUE ... - put the lines of a template of the local cloud
# into a configuration file. Options that may be given several times are added.
function climate_merge {
    local template=$1 file=$2 line section="" key value pair
    shift 2
    while read -r line; do
        case $line in
            '#'* | '') continue ;;
            '['*) section=${line//[\[\]]/} && continue ;;
        esac
        key=${line%% = *}
        value=${line#* = }
        for pair in "$@"; do
            value=${value//"@{${pair%%=*}}"/${pair#*=}}
        done
        case $section/$key in
            oslo_messaging_notifications/driver | filter_scheduler/available_filters | \
                DEFAULT/osapi_volume_extension)
                if ! iniget_multiline "$file" "$section" "$key" | grep -qw -- "$value"; then
                    iniadd "$file" "$section" "$key" "$value"
                fi
                ;;
            filter_scheduler/enabled_filters)
                climate_enable "$file" "$section" "$key" ReservationFilter "$value"
                climate_enable "$file" "$section" "$key" PoolFilter "$value"
                ;;
            DEFAULT/scheduler_default_filters)
                climate_enable "$file" "$section" "$key" ReservationFilter "$value"
                ;;
            DEFAULT/plugin_dirs)
                climate_enable "$file" "$section" "$key" "$value" "$value"
                ;;
            *) iniset "$file" "$section" "$key" "$value" ;;
        esac
    done < "$template"
}

# climate_enable FILE SECTION KEY OURS DEFAULT - append OURS to a list; one that is not set
# becomes DEFAULT.
function climate_enable {
    local file=$1 section=$2 key=$3 ours=$4 default=$5 enabled
    enabled=$(iniget "$file" "$section" "$key")
    if [[ -z "$enabled" ]]; then
        enabled=$default
    elif [[ ",$enabled," != *",$ours,"* ]]; then
        enabled="$enabled,$ours"
    fi
    iniset "$file" "$section" "$key" "$enabled"
}

function install_climate {
    setup_develop "$CLIMATE_DIR" service,mysql,postgresql,client,power
    # What the driver ipmi of [power] calls.
    install_package ipmitool
}

function configure_climate {
    sudo install -d -m 0750 -o "$STACK_USER" "$CLIMATE_CONF_DIR" "$CLIMATE_DATA_DIR"
    climate_secret_file "$CLIMATE_CONF"
    iniset "$CLIMATE_CONF" DEFAULT debug "$ENABLE_DEBUG_LOG_LEVEL"
    iniset "$CLIMATE_CONF" DEFAULT state_path "$CLIMATE_DATA_DIR"
    iniset "$CLIMATE_CONF" database connection "$(database_connection_url climate)"
    iniset "$CLIMATE_CONF" oslo_messaging_notifications driver messagingv2
    iniset "$CLIMATE_CONF" oslo_concurrency lock_path "$CLIMATE_DATA_DIR/locks"
    iniset_rpc_backend climate "$CLIMATE_CONF"
    configure_climate_bus
    configure_keystone_authtoken_middleware "$CLIMATE_CONF" climate
    iniset "$CLIMATE_CONF" keystone_authtoken service_token_roles service
    iniset "$CLIMATE_CONF" keystone_authtoken service_token_roles_required True
    configure_keystone_authtoken_middleware "$CLIMATE_CONF" climate cloud
    iniset "$CLIMATE_CONF" cloud region_name "$REGION_NAME"
    iniset "$CLIMATE_CONF" virtual:instance secret_keys \
        "$(climate_key climate "$CLIMATE_SECRET_KEY")"
    # Nova, Cinder and Heat notify, and a look follows each notification.
    local kind
    for kind in instance volume stack; do
        iniset "$CLIMATE_CONF" "virtual:$kind" first_poll_seconds 5
    done
    iniset "$CLIMATE_CONF" oslo_limit endpoint_region_name "$REGION_NAME"
    iniset "$CLIMATE_CONF" oslo_middleware enable_proxy_headers_parsing True
    setup_logging "$CLIMATE_CONF"
    write_uwsgi_config "$CLIMATE_UWSGI_CONF" "$CLIMATE_UWSGI" "$CLIMATE_PATH" "" climate-api
    iniset "$CLIMATE_UWSGI_CONF" uwsgi env "OS_CLIMATE_CONFIG_FILES=$CLIMATE_CONF"
    # One thread of a process answers extensions while users' requests wait for Nova, Cinder or Heat.
    iniset "$CLIMATE_UWSGI_CONF" uwsgi threads 4
    # The query of a feed has its token; climate-api logs each request without its query.
    iniset "$CLIMATE_UWSGI_CONF" uwsgi disable-logging true
    # It would log the URL of a request whose client has gone: that of a feed has a token.
    iniset "$CLIMATE_UWSGI_CONF" uwsgi ignore-sigpipe true
    iniset "$CLIMATE_UWSGI_CONF" uwsgi ignore-write-errors true
}

# climate_secret_file FILE - an empty file that only this user reads.
function climate_secret_file {
    rm -f "$1"
    install -m 0600 /dev/null "$1"
}

# climate_policy SERVICE CONF - the lines for policy.yaml by which a service accepts Climate's user
# without the role admin.
function climate_policy {
    local lines
    lines=$(dirname "$2")/policy.d
    sudo install -d -o "$STACK_USER" "$lines"
    cp "$CLIMATE_PLUGIN_DIR/local/templates/policies/$1.yaml" "$lines/climate.yaml"
}

# climate_bus_url USER PASSWORD VHOST
function climate_bus_url {
    echo "rabbit://$1:$2@$RABBIT_HOST:5672/$3"
}

# climate_notifier_password USER - of a service that notifies: each node has to know it.
function climate_notifier_password {
    printf '%s' "$1" | openssl dgst -sha256 -hmac "$RABBIT_PASSWORD" -r | cut -c 1-32
}

# climate_notify SERVICE CONF - let a service notify as a user that can do nothing else.
function climate_notify {
    local user=$1-notify
    [[ "$CLIMATE_OWN_VHOSTS" == True ]] || return 0
    iniset "$2" oslo_messaging_notifications transport_url \
        "$(climate_bus_url "$user" "$(climate_notifier_password "$user")" notifications)"
}

# climate_bus_user USER PASSWORD VHOST CONFIGURE WRITE READ - give a user of RabbitMQ these rights.
function climate_bus_user {
    local user=$1 password=$2 vhost=$3
    shift 3
    sudo rabbitmqctl add_user "$user" "$password" ||
        sudo rabbitmqctl change_password "$user" "$password"
    sudo rabbitmqctl set_permissions -p "$vhost" "$user" "$@"
}

# climate_notifier SERVICE EXCHANGE TOPICS - a user that can only send notifications.
function climate_notifier {
    local user=$1-notify own="^($2|$3\\..*)\$"
    climate_bus_user "$user" "$(climate_notifier_password "$user")" notifications \
        "$own" "$own" "^$2\$"
}

# configure_climate_bus - whoever can publish in the vhost of climate-manager can call it as any
# user, so that DevStack's own user of RabbitMQ has no rights in these vhosts. The rights are those
# of doc/source/install/message-bus.rst.
function configure_climate_bus {
    local section vhost rpc notify own='climate(-cinder|-heat)?' others='nova|openstack|heat'
    [[ "$CLIMATE_OWN_VHOSTS" == True ]] || return 0
    for vhost in climate notifications; do
        sudo rabbitmqctl add_vhost "$vhost" || true
        sudo rabbitmqctl clear_permissions -p "$vhost" "$RABBIT_USERID" || true
    done
    climate_notifier nova nova '(versioned_)?notifications'
    climate_notifier cinder openstack notifications
    climate_notifier heat heat notifications
    rpc=$(openssl rand -hex 16)
    notify=$(openssl rand -hex 16)
    climate_bus_user climate "$rpc" climate '.*' '.*' '.*'
    climate_bus_user climate-notify "$notify" notifications \
        "^($others|$own|notifications\\..*)\$" "^($own|notifications\\..*)\$" "^($others|$own)\$"
    iniset "$CLIMATE_CONF" DEFAULT transport_url "$(climate_bus_url climate "$rpc" climate)"
    for section in oslo_messaging nova cinder heat; do
        iniset "$CLIMATE_CONF" "${section}_notifications" transport_url \
            "$(climate_bus_url climate-notify "$notify" notifications)"
    done
    # No service reads the queues of topics that oslo.messaging declares.
    sudo rabbitmqctl set_policy -p notifications --apply-to queues bounded \
        '^(versioned_)?notifications\.' '{"message-ttl": 600000, "max-length": 10000}'
}

# configure_climate_placement - otherwise Placement 16 promises more than there is to claims that
# are made at once.
function configure_climate_placement {
    is_service_enabled placement-api || return 0
    iniset "$PLACEMENT_CONF" placement allocation_conflict_retry_count 1
}

# configure_climate_nova - nova-api, nova-scheduler and nova-compute have to know Climate. The private
# key is in a file that nova-api alone reads: DevStack makes that of nova-compute from nova.conf.
function configure_climate_nova {
    local keys public=$CLIMATE_NOVA_PUBLIC_KEY
    is_service_enabled n-api n-sch n-cpu || return 0
    if is_service_enabled n-api; then
        keys=$(dirname "$NOVA_CONF")/nova-api-climate.conf
        climate_secret_file "$keys"
        climate_merge "$CLIMATE_PLUGIN_DIR/local/templates/nova-api-climate.conf" "$keys" \
            nova_key="$(climate_key nova "$CLIMATE_NOVA_KEY")"
        public=$(climate-nova-stash --config-file "$keys" public)
        iniset "$NOVA_UWSGI_CONF" uwsgi env \
            "OS_NOVA_CONFIG_FILES=api-paste.ini;nova.conf;nova-api-climate.conf"
        climate_policy nova "$NOVA_CONF"
    fi
    climate_merge "$CLIMATE_PLUGIN_DIR/local/templates/nova-climate.conf" "$NOVA_CONF" \
        climate_url="$SERVICE_PROTOCOL://$SERVICE_HOST$CLIMATE_PATH" \
        nova_public_key="$public"
    climate_notify nova "$NOVA_CONF"
}

# climate_key - a key that protects what a service keeps: the one that is set, or one that is made
# once. All nodes with this service need the same: with several, set it in each local.conf.
function climate_key {
    local file=$CLIMATE_DATA_DIR/$1.key
    if [[ -n "$2" ]]; then
        echo "$2"
        return
    fi
    if [[ ! -s "$file" ]]; then
        (umask 077 && openssl rand 32 | base64 | tr '+/' '-_' > "$file")
    fi
    cat "$file"
}

# configure_climate_cinder - DevStack gives Cinder no service token of its own; the lease service
# wants one, and Climate is looked up with its credentials.
function configure_climate_cinder {
    is_service_enabled cinder || return 0
    configure_keystone_authtoken_middleware "$CINDER_CONF" cinder service_user
    climate_merge "$CLIMATE_PLUGIN_DIR/local/templates/cinder-climate.conf" "$CINDER_CONF"
    iniset "$CINDER_CONF" climate region_name "$REGION_NAME"
    climate_policy cinder "$CINDER_CONF"
    climate_notify cinder "$CINDER_CONF"
}

# configure_climate_heat - the lines of heat.conf, the names in Heat's environment, and a token of
# Heat's own, which DevStack does not give it either.
function configure_climate_heat {
    local file=${HEAT_CONF:-/etc/heat/heat.conf} names=${HEAT_ENV_DIR:-/etc/heat/environment.d}
    is_service_enabled heat || return 0
    configure_keystone_authtoken_middleware "$file" heat service_user
    climate_merge "$CLIMATE_PLUGIN_DIR/local/templates/heat-climate.conf" "$file" \
        heat_plugins="$CLIMATE_DIR/heat_ext/plugins"
    sudo install -d -o "$STACK_USER" "$names"
    cp "$CLIMATE_DIR/heat_ext/environment.d/climate.yaml" "$names"
    climate_policy heat "$file"
    climate_notify heat "$file"
}

# configure_climate_policies - Keystone and Neutron need nothing else. Neutron keeps what is set
# apart for leases from the managers of projects.
function configure_climate_policies {
    if is_service_enabled key; then
        climate_policy keystone "$KEYSTONE_CONF"
    fi
    if is_service_enabled q-svc neutron-api; then
        climate_policy neutron "$NEUTRON_CONF"
    fi
}

# configure_climate_dashboard - the panels of Climate, where Horizon runs; it collects and compresses
# its style sheets itself when it is started.
function configure_climate_dashboard {
    local own=$HORIZON_DIR/openstack_dashboard/local
    is_service_enabled horizon || return 0
    cp "$CLIMATE_DIR"/climate_dashboard/enabled/_*.py "$own/enabled/"
    cp "$CLIMATE_DIR"/climate_dashboard/local_settings.d/_*.py "$own/local_settings.d/"
}

# create_climate_accounts - the user has the roles of doc/source/admin/security.rst: climate is
# that of an administrator in Nova, Cinder and Heat alone.
function create_climate_accounts {
    local role domain=$SERVICE_DOMAIN_NAME
    get_or_create_role climate
    create_service_user climate
    for role in climate member; do
        get_or_add_user_project_role "$role" climate "$SERVICE_PROJECT_NAME" "$domain" "$domain"
    done
    get_or_create_service climate reservation "Reservation Service"
    get_or_create_endpoint reservation "$REGION_NAME" "$(climate_endpoint)"
}

# register_climate_limits - what a project may hold at most, for [limits] driver.
function register_climate_limits {
    local pair known
    [[ -n "$CLIMATE_LIMITS" ]] || return 0
    known=$(openstack --os-cloud devstack-system-admin registered limit list \
        --service climate --region "$REGION_NAME" -f value -c "Resource Name")
    for pair in $CLIMATE_LIMITS; do
        if ! grep -qx -- "${pair%%=*}" <<< "$known"; then
            openstack --os-cloud devstack-system-admin registered limit create \
                --service climate --region "$REGION_NAME" --default-limit "${pair#*=}" \
                "${pair%%=*}"
        fi
    done
}

function init_climate {
    recreate_database climate
    climate-manage --config-file "$CLIMATE_CONF" db upgrade
}

function start_climate {
    run_process climate-api "$(which uwsgi) --procname-prefix climate --ini $CLIMATE_UWSGI_CONF"
    run_process climate-manager "$(which climate-manager) --config-file $CLIMATE_CONF"
    echo "Waiting for climate-api to start..."
    if ! wait_for_service "$SERVICE_TIMEOUT" "$(climate_endpoint)"; then
        die $LINENO "climate-api did not start"
    fi
}

# create_climate_pool - the hosts that leases have, and Nova's own aggregate, by which a
# nova-scheduler without PoolFilter keeps ordinary servers off them.
function create_climate_pool {
    local host
    [[ -n "$CLIMATE_POOL" ]] || return 0
    openstack --os-cloud devstack-admin aggregate create \
        --property trait:CUSTOM_CLIMATE_POOL=required climate-pool
    for host in $CLIMATE_POOL; do
        openstack --os-cloud devstack-admin aggregate add host climate-pool "$host"
        openstack --os-cloud devstack-admin lease host create "$host"
    done
}

function stop_climate {
    stop_process climate-api
    stop_process climate-manager
}

function cleanup_climate {
    local name
    if is_service_enabled rabbit; then
        for name in climate notifications; do
            sudo rabbitmqctl delete_vhost "$name" || true
        done
        for name in climate {climate,nova,cinder,heat}-notify; do
            sudo rabbitmqctl delete_user "$name" || true
        done
    fi
    sudo rm -f /etc/{keystone,nova,cinder,heat,neutron}/policy.d/climate.yaml
    remove_uwsgi_config "$CLIMATE_UWSGI_CONF" climate-api
    sudo rm -rf "$CLIMATE_CONF_DIR" "$CLIMATE_DATA_DIR"
    rm -f "${HORIZON_DIR:-$DEST/horizon}"/openstack_dashboard/local/enabled/_178[0-9]_*.py \
        "${HORIZON_DIR:-$DEST/horizon}"/openstack_dashboard/local/local_settings.d/_90_climate_*.py
}

function climate_phase {
    case $1/$2 in
        stack/pre-install)
            if ! is_service_enabled key; then
                die $LINENO "Climate needs Keystone: enable_service key"
            fi
            if [[ "$CLIMATE_OWN_VHOSTS" == True ]] && ! is_service_enabled rabbit; then
                die $LINENO "RabbitMQ is not on this node: set CLIMATE_OWN_VHOSTS=False on all"
            fi
            ;;
        stack/install)
            echo_summary "Installing Climate"
            install_climate
            ;;
        stack/post-config)
            echo_summary "Configuring Climate"
            configure_climate
            configure_climate_placement
            configure_climate_nova
            configure_climate_cinder
            configure_climate_heat
            configure_climate_policies
            configure_climate_dashboard
            create_climate_accounts
            register_climate_limits
            init_climate
            ;;
        stack/extra)
            echo_summary "Starting Climate"
            start_climate
            ;;
        stack/test-config)
            # DevStack has discovered the hosts by now.
            create_climate_pool
            ;;
        unstack/*) stop_climate ;;
        clean/*) cleanup_climate ;;
    esac
}

if is_service_enabled climate-api climate-manager; then
    climate_phase "$1" "${2:-}"
elif is_service_enabled key placement-api n-api n-sch n-cpu cinder heat q-svc neutron-api; then
    # Another node: all of Nova, Cinder and Heat have to know Climate.
    case $1/${2:-} in
        stack/install) setup_develop "$CLIMATE_DIR" ;;
        stack/post-config)
            sudo install -d -m 0750 -o "$STACK_USER" "$CLIMATE_DATA_DIR"
            configure_climate_placement
            configure_climate_nova
            configure_climate_cinder
            configure_climate_heat
            configure_climate_policies
            ;;
    esac
fi
